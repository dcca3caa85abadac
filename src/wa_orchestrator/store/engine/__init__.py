"""Access to Redis itself: the embedded server, durability checks, script loading, pub/sub."""
