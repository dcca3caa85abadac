"""Commands for whoever runs the server: access, backups, jobs, webhooks, exports."""
