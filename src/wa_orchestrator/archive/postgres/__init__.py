"""The archive in PostgreSQL, for services on several machines."""
