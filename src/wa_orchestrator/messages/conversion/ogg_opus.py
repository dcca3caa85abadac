"""Ogg/Opus as WhatsApp's own phones write voice notes. Pure.

iPhones refuse what ffmpeg writes ("this audio is no longer available"): they want 16 kHz mono in packets of three
frames (code 3 of RFC 6716, § 3.2.5), and some Androids want the vendor `WhatsApp`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

RATE: Final = 16_000
FRAME_SAMPLES: Final = 320
_FRAMES_PER_PACKET: Final = 3
#: Opus counts at 48 kHz, whatever the rate of the source.
_TICKS_PER_FRAME: Final = 960
_TICKS_PER_SAMPLE: Final = 3
_SERIAL: Final = 1
_PACKETS_PER_PAGE: Final = 17
_FIRST, _LAST = 2, 4
_POLYNOMIAL: Final = 0x04C11DB7
_TWO_BYTE_LENGTH: Final = 252


class UnsuitableFramesError(ValueError):
    """The encoder wrote frames that cannot be packed together."""


def pack(frames: Sequence[bytes]) -> bytes:
    """Return a packet of code 3 from packets of one frame each (code 0), which must have the same mode."""
    tocs = {frame[0] for frame in frames}
    if len(tocs) != 1 or frames[0][0] & 3:
        raise UnsuitableFramesError(f"frames of {len(tocs)} modes")
    bodies = [frame[1:] for frame in frames]
    varies = len({len(body) for body in bodies}) > 1
    head = bytes([frames[0][0] | 3, (0x80 if varies else 0) | len(bodies)])
    lengths = b"".join(_length(len(body)) for body in bodies[:-1]) if varies else b""
    return head + lengths + b"".join(bodies)


def write(frames: Sequence[bytes], samples: int, preskip: int) -> bytes:
    """Return a file of these frames, of 20 ms each, that plays `samples` samples."""
    head = b"OpusHead\x01\x01" + preskip.to_bytes(2, "little") + RATE.to_bytes(4, "little") + b"\0\0\0"
    tags = b"OpusTags" + (8).to_bytes(4, "little") + b"WhatsApp" + b"\0\0\0\0"
    return _page([head], 0, 0, _FIRST) + _page([tags], 0, 1, 0) + b"".join(_audio(frames, samples, preskip))


def _audio(frames: Sequence[bytes], samples: int, preskip: int) -> Iterator[bytes]:
    groups = [frames[at : at + _FRAMES_PER_PACKET] for at in range(0, len(frames), _FRAMES_PER_PACKET)]
    ticks = 0
    for number, first in enumerate(range(0, len(groups), _PACKETS_PER_PAGE)):
        some = groups[first : first + _PACKETS_PER_PAGE]
        ticks += sum(map(len, some)) * _TICKS_PER_FRAME
        is_last = first + _PACKETS_PER_PAGE >= len(groups)
        # The last page says where the sound ends, within its last frame.
        granule = min(ticks, samples * _TICKS_PER_SAMPLE + preskip) if is_last else ticks
        yield _page([pack(group) for group in some], granule, 2 + number, _LAST if is_last else 0)


def _page(packets: Sequence[bytes], granule: int, number: int, flags: int) -> bytes:
    lacing = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    head = b"OggS\0" + bytes([flags]) + granule.to_bytes(8, "little") + _SERIAL.to_bytes(4, "little")
    rest = bytes([len(lacing)]) + lacing + b"".join(packets)
    numbered = head + number.to_bytes(4, "little")
    return numbered + checksum(numbered + bytes(4) + rest).to_bytes(4, "little") + rest


def _length(count: int) -> bytes:
    if count < _TWO_BYTE_LENGTH:
        return bytes([count])
    first = _TWO_BYTE_LENGTH + (count & 3)
    return bytes([first, (count - first) >> 2])


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1) ^ (_POLYNOMIAL if value & 0x8000_0000 else 0)
        table.append(value & 0xFFFF_FFFF)
    return table


_TABLE: Final = _table()


def checksum(data: bytes) -> int:
    """Return the CRC-32 of Ogg: not reflected, from 0."""
    value = 0
    for byte in data:
        value = ((value << 8) & 0xFFFF_FFFF) ^ _TABLE[(value >> 24) ^ byte]
    return value


def waveform(levels: Sequence[float]) -> bytes:
    """Return the 64 bars that are drawn beside a voice note, the highest of them 100, from the level of each frame."""
    bars = [
        levels[len(levels) * at // 64 : max(len(levels) * (at + 1) // 64, len(levels) * at // 64 + 1)]
        for at in range(64)
    ]
    means = [sum(bar) / len(bar) if bar else 0.0 for bar in bars]
    highest = max(means)
    return bytes(int(mean * 100 / highest) if highest else 0 for mean in means)
