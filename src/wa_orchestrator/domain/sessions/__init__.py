"""A session: its states, its phone, its links with WhatsApp, and the workers that it should have."""
