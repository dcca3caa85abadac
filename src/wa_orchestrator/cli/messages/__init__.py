"""Commands about messages: send, search, campaigns, conversations, contacts, pace."""
