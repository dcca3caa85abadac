"""Who may do what: API keys, logins of people, the audit log."""
