"""Routes of sessions: reading, changing, linking and their limits."""
