"""Campaigns: the records, their recipients, and who answered or opted out since."""
