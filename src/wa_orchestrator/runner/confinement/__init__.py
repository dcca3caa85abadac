"""Confines workers that run as processes: what the kernel lets them reach, applied by a launcher before Node starts."""
