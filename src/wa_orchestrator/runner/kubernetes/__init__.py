"""Kubernetes driver: each worker is a bare Pod that the cluster places and never restarts."""
