"""Runs the product as processes: bootstrap, HTTP listeners, supervision, generated secrets, preflight checks."""
