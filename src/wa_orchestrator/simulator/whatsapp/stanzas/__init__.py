"""Handlers of stanzas: login, pairing, messages, receipts, keys and queries."""
