"""Who sends a message: a snapshot of all sessions, the conversation that exists already, the choice."""
