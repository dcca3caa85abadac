"""What the product tells the outside: operator alerts and customer webhooks."""
