"""States and decisions as pure functions of values: standard library only, no clock, no randomness, no I/O."""
