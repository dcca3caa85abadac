"""HTTP control of the simulated world, on loopback."""
