"""What runs workers: `contract` says what a driver promises; `process` and `docker` are drivers."""
