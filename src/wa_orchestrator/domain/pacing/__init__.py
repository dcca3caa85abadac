"""How fast a phone may send: its limits, whether its next message may leave now, and when each of its queue will."""
