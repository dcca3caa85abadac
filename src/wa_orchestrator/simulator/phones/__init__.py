"""Simulated phones: what people do with them, and their end of the encryption."""
