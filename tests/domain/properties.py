"""Hypothesis settings for the domain: the same examples in every run, and few enough for a suite of seconds."""

from hypothesis import settings

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
