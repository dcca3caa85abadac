"""Campaigns: created from a file, fed into the queues a few at a time, and followed until answers have come."""
