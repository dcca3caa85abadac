"""Campaigns: made of a file, handed to the queues a few at a time, and watched until the answers have come."""
