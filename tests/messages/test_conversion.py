"""Any sound becomes a voice note that phones play; pictures and videos get their size and preview; nothing else is read."""

import base64
import io
import math
from array import array
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from tests.dispatcher.scenario import settings
from wa_orchestrator.domain.messages.content import MediaKind
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import uploads
from wa_orchestrator.messages.conversion import media_files, ogg_opus
from wa_orchestrator.messages.uploads import Upload
from wa_orchestrator.simulator.protocol import voice_notes

SECONDS = 2.2
SOUNDS = {
    "mp3": ("libmp3lame", "s16p", 44_100, "mp3"),
    "m4a": ("aac", "fltp", 48_000, "mp4"),
    "wav": ("pcm_s16le", "s16", 22_050, "wav"),
    "ogg": ("libopus", "flt", 48_000, "ogg"),
}


def sound(name: str) -> bytes:
    """A tone that grows louder, in stereo."""
    codec, kind, rate, container = SOUNDS[name]
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream: Any = file.add_stream(codec, rate=rate)
        stream.layout = "stereo"
        whole, size = int(rate * SECONDS), 960
        for begin in range(0, whole, size):
            frame = av.AudioFrame(format=kind, layout="stereo", samples=size)
            tone = [math.sin(440 * math.tau * at / rate) * at / whole / 2 for at in range(begin, begin + size)]
            both = tone if kind.endswith("p") else [each for each in tone for _ in range(2)]
            data = array("f", both) if kind.startswith("flt") else array("h", [int(each * 32_767) for each in both])
            for plane in frame.planes:
                plane.update(data.tobytes().ljust(plane.buffer_size, b"\0")[: plane.buffer_size])
            frame.sample_rate, frame.pts = rate, begin
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return out.getvalue()


async def upload(directory: Path, data: bytes, mimetype: str = "audio/mpeg") -> tuple[Any, Upload]:
    known = settings(data_dir=directory)
    return known, await uploads.save(known, _chunk(data), mimetype=mimetype, owner="k_1")


async def content_of(stored: Upload) -> bytes:
    return b"".join([chunk async for chunk in stored.read()])


async def _chunk(data: bytes) -> Any:
    yield data


@pytest.mark.parametrize("name", SOUNDS)
async def test_any_sound_becomes_a_voice_note_that_phones_play(tmp_path: Path, name: str) -> None:
    known, source = await upload(tmp_path, sound(name))
    made = await media_files.prepared(known, source, MediaKind.VOICE)
    assert voice_notes.refusal(await content_of(made)) is None
    assert (made.mimetype, made.owner, made.facts["seconds"]) == ("audio/ogg; codecs=opus", "k_1", 2)
    with av.open(io.BytesIO(await content_of(made)), "r") as file:
        heard = sum(frame.samples / frame.sample_rate for frame in file.decode(audio=0))
    assert heard == pytest.approx(SECONDS, abs=0.1)
    bars = base64.b64decode(made.facts["waveform"])
    assert (len(bars), max(bars)) == (64, 100)
    assert bars[5] < bars[30] < bars[60]
    again = await uploads.open(known, source.id)
    assert again is not None
    assert (await media_files.prepared(known, again, MediaKind.VOICE)).id == made.id  # not twice


@pytest.mark.parametrize("data", [b"no sound", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", b"RIFF\0\0\0\0WAVE"])
async def test_what_is_no_sound_is_refused_and_names_no_other_file(tmp_path: Path, data: bytes) -> None:
    known, source = await upload(tmp_path, data)
    with pytest.raises(Refused) as refused:
        await media_files.prepared(known, source, MediaKind.VOICE)
    assert refused.value.code == "UNREADABLE_MEDIA"


async def test_a_picture_gets_its_size_and_a_small_preview(tmp_path: Path) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (640, 320), "red").save(picture, "PNG")
    known, source = await upload(tmp_path, picture.getvalue(), "image/png")
    facts = (await media_files.prepared(known, source, MediaKind.IMAGE)).facts
    assert (facts["width"], facts["height"]) == (640, 320)
    preview = Image.open(io.BytesIO(base64.b64decode(facts["thumbnail"])))
    assert (preview.format, preview.size) == ("JPEG", (72, 36))
    broken = await upload(tmp_path, b"not a picture", "image/png")
    assert (await media_files.prepared(*broken, MediaKind.IMAGE)).facts == {"described": True}  # sent without one


async def test_a_picture_becomes_a_sticker_in_the_middle_of_a_square(tmp_path: Path) -> None:
    picture = io.BytesIO()
    Image.new("RGBA", (200, 100), (255, 0, 0, 255)).save(picture, "PNG")
    known, source = await upload(tmp_path, picture.getvalue(), "image/png")
    made = await media_files.prepared(known, source, MediaKind.STICKER)
    drawn: Any = Image.open(io.BytesIO(await content_of(made))).convert("RGBA")
    assert (made.mimetype, drawn.size) == ("image/webp", (512, 512))
    assert drawn.getpixel((256, 20))[3] == 0
    assert drawn.getpixel((256, 256))[0] > 200


def test_frames_are_packed_as_the_standard_says() -> None:
    assert ogg_opus.pack([b"\x48" + b"a" * 32, b"\x48" + b"b" * 34, b"\x48" + b"c" * 36])[:4].hex() == "4b832022"
    assert ogg_opus.pack([b"\x48aa", b"\x48bb"])[:2].hex() == "4b02"
    assert ogg_opus.pack([b"\x48" + b"a" * 300, b"\x48b"])[2:4] == bytes([252, 12])
    with pytest.raises(ogg_opus.UnsuitableFramesError):
        ogg_opus.pack([b"\x48a", b"\x49b"])
    assert ogg_opus.waveform([]) == bytes(64)
