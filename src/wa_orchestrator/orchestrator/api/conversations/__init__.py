"""Routes of conversations, their messages, and answers that people insert."""
