"""Planted secrets occur nowhere that somebody can read, whatever goes wrong."""
