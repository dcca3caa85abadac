"""Worker processes: start queue, pool, adoption after a server restart, reconciler, watchdog, tokens, commands."""
