"""HTTP API that controls the simulator, on loopback."""
