"""A proxy: its URL, who gets it, and when it is bad."""
