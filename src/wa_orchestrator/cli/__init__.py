"""The command line: `up` and the single services, and the commands that are clients of a running server."""
