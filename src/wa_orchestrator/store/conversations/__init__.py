"""Conversations: what an account and a contact wrote to each other, as the inbox lists them."""
