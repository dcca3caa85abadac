"""Runs workers: `contract` defines what a driver guarantees, `factory` chooses one: processes, containers, Pods."""
