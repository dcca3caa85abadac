"""Campaigns: one text to many recipients who agreed to it, at the pace of the sessions that send it."""
