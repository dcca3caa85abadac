"""whatsmeow, a second client, against the simulator."""
