"""A stand-in of a Kubernetes cluster for tests: an API server that keeps the rules clients depend on, and nodes."""
