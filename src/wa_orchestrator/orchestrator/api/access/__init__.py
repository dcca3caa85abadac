"""Routes of API keys and of people."""
