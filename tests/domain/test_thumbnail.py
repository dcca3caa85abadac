"""Which small pictures are kept: JPEGs that are small in bytes and in pixels, and nothing else."""

import base64
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.pictures import in_base64, jpeg
from wa_orchestrator.domain.messages import thumbnail

SMALL = jpeg()
FRAME = SMALL.index(b"\xff\xc0")


def claiming(height: int, width: int) -> bytes:
    """The same few bytes, which claim to be a picture of this size."""
    return SMALL[: FRAME + 5] + struct.pack(">HH", height, width) + SMALL[FRAME + 9 :]


def progressive() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 40), "navy").save(file, "JPEG", progressive=True)
    return file.getvalue()


@pytest.mark.parametrize("data", [SMALL, progressive(), jpeg(100, 100), claiming(1024, 1024)])
def test_a_small_jpeg_is_kept_as_it_is(data: bytes) -> None:
    assert thumbnail.decode(in_base64(data)) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + SMALL,
        b"<svg onload=alert(1)>",
        SMALL[:-2],
        SMALL + b"<script>",
        SMALL[2:],
        b"\xff\xd8\xff\xd9",
        SMALL[:2] + b"\xff\xe0\xff\xff" + SMALL[2:],  # a segment that is longer than the file
        SMALL[:2] + b"\xff\xe0\x00\x00" + SMALL[2:],  # one that is shorter than its own length
        SMALL[:FRAME] + SMALL[FRAME : FRAME + 19] + SMALL[FRAME:],  # two frames
        claiming(65_535, 65_535),
        claiming(0, 72),
        claiming(1025, 72),
        SMALL[:-2] + bytes(thumbnail.LONGEST) + b"\xff\xd9",
    ],
)
def test_what_is_no_small_jpeg_is_not_kept(data: bytes) -> None:
    assert thumbnail.decode(in_base64(data)) is None


@pytest.mark.parametrize("text", ["", "!", "////", "=", in_base64(SMALL) + "\n", "תמונה"])
def test_what_is_no_base64_of_a_picture_is_not_kept(text: str) -> None:
    assert thumbnail.decode(text) is None


@given(st.binary(max_size=300), st.integers(0, len(SMALL)))
def test_whatever_is_kept_is_short_and_begins_and_ends_as_a_jpeg(noise: bytes, at: int) -> None:
    for data in (noise, SMALL[:at] + noise + SMALL[at:], SMALL[:at] + noise):
        kept = thumbnail.decode(base64.b64encode(data).decode())
        assert kept is None or (kept == data and kept[:2] + kept[-2:] == b"\xff\xd8\xff\xd9")
