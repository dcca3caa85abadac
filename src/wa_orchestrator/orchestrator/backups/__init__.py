"""Backups: copies of the sessions' credentials and of Redis' state in one verified file, and their restoration."""
