"""Conversations: what a session and a contact wrote to each other, as the inbox lists them."""
