"""The end of a message in Redis: copied to the archive, erased by age, or erased with its person."""
