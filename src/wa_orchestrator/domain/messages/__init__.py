"""A message: its content, statuses and failures, who sends it, and when it is tried again."""
