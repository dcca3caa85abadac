"""Commands that are clients of a running server: `sessions`, `proxies`, `send`, `messages`, `events`."""
