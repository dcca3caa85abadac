"""Simulated phones: actions of people, and the phone's encryption."""
