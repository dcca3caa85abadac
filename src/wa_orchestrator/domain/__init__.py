"""What is, and what should happen: pure decisions on values, with no clock, no dice and no input or output."""
