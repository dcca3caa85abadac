"""Runs workers: `contract` defines what a driver guarantees; `process` and `docker` are the drivers."""
