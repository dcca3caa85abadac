"""The simulated WhatsApp server: connections, accounts, pairing, messages, media and faults."""
