"""Operator commands: access, backups, jobs, webhooks, exports."""
