"""Whether phones play a voice note: what iPhones and Androids were seen to refuse."""

from collections.abc import Iterator

_WIDE_BAND_20_MS, _MANY_FRAMES = 9, 3


def refusal(file: bytes) -> str | None:
    """Return why a phone would say that the audio is no longer available; None if it plays."""
    try:
        packets = list(_packets(file))
    except (IndexError, ValueError):
        return "container"
    if len(packets) < 3 or packets[0][:8] != b"OpusHead" or packets[1][:8] != b"OpusTags":
        return "container"
    if packets[0][9] != 1 or int.from_bytes(packets[0][12:16], "little") != 16_000:
        return "rate"
    if packets[1][8:20] != (8).to_bytes(4, "little") + b"WhatsApp":
        return "vendor"
    tocs = {packet[0] for packet in packets[2:]}
    return None if tocs == {_WIDE_BAND_20_MS << 3 | _MANY_FRAMES} else "packets"


def _packets(file: bytes) -> Iterator[bytes]:
    """Yield the packets of an Ogg file."""
    position, packet = 0, b""
    while position < len(file):
        if file[position : position + 4] != b"OggS":
            raise ValueError("not Ogg")
        count = file[position + 26]
        lacing = file[position + 27 : position + 27 + count]
        position += 27 + count
        for length in lacing:
            packet += file[position : position + length]
            position += length
            if length < 255:
                yield packet
                packet = b""
