"""What all commands share: options, the server that they talk to, output and errors."""
