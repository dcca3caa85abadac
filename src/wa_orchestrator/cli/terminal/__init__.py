"""Shared by all commands: options, finding the server, output and errors."""
