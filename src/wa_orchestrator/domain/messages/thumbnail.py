"""The small JPEG that comes with a message. Its sender makes it, so it is kept only if it is what it claims to be."""

import base64
import binascii
from typing import Final

#: Bytes; those of WhatsApp's own clients have a few thousand.
LONGEST: Final = 16 * 1024
#: Pixels of a side. A few bytes can claim a picture whose pixels would fill a browser's memory.
LARGEST_SIDE: Final = 1024
_START, _END, _SCAN, _FILL = 0xD8, 0xD9, 0xDA, 0xFF
_HEAD_BYTES: Final = 4
#: Frames that browsers decode: baseline, extended and progressive.
_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})


def decode(text: str) -> bytes | None:
    """Return the picture in a text of base64; None unless it is a JPEG that is small in bytes and in pixels."""
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return data if len(data) <= LONGEST and _is_small_jpeg(data) else None


def _is_small_jpeg(data: bytes) -> bool:
    """Whether the segments lead from the start of a picture to its data, and the only frame among them is small."""
    if not (data.startswith(bytes([0xFF, _START])) and data.endswith(bytes([0xFF, _END]))):
        return False
    at, sides = 2, []
    while (segment := _segment(data, at)) is not None:
        marker, body, at = segment
        if marker in _FRAMES:
            sides.append((int.from_bytes(body[1:3]), int.from_bytes(body[3:5])))
        if marker == _SCAN:
            return len(sides) == 1 and all(0 < side <= LARGEST_SIDE for side in sides[0])
    return False


def _segment(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    """Return the marker of the segment at a place, its body, and where the next one begins; None for no segment."""
    head = data[at : at + _HEAD_BYTES]
    if len(head) < _HEAD_BYTES or head[0] != _FILL:
        return None
    following = at + 2 + int.from_bytes(head[2:])  # a length counts itself
    if not at + _HEAD_BYTES <= following <= len(data):
        return None
    return head[1], data[at + _HEAD_BYTES : following], following
