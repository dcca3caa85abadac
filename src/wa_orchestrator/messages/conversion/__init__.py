"""Converts files for WhatsApp: voice notes, stickers, and the size and preview of pictures and videos.

Files come from untrusted people, and decoders have bugs: `converter` is a process of its own, with limits.
"""
