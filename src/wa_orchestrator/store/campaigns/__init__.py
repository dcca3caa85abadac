"""Campaigns: the records, their recipients, and what these did since."""
