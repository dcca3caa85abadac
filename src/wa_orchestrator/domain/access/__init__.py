"""Who may do what, how people prove who they are, and what is kept of what they did."""
