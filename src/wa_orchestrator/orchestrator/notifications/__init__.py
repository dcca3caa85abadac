"""Operator alerts and customer webhooks, both made from the stream of events."""
