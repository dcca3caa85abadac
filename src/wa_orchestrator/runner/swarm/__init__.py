"""Docker Swarm driver: each worker is a service of one replica that the engine places and never restarts."""
