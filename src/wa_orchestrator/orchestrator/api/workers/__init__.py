"""Routes for workers: their events and their outbox."""
