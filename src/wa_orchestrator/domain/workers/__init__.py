"""What workers report: their events, and parts of the protocol that they do not know."""
