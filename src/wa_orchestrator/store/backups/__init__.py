"""Backups in Redis: reading and loading its state, and the backup or restore that runs."""
