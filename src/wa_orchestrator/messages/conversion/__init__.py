"""Makes of a file what WhatsApp shows: voice notes, stickers, and the size and preview of pictures and videos.

Files come from strangers, and decoders have bugs: `converter` is a process of its own, with limits.
"""
