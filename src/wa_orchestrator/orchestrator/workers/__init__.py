"""Worker processes: start queue, reconciler, watchdog, commands and tokens."""
