"""Routes of events, their form outside, and their reference."""
