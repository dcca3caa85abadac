"""The process that decodes files of strangers: `python -m … <what> <source> <target>`, facts as JSON on stdout.

Ends with 2 where the file cannot be read as what it is to be. It has limits of time and memory, opens no other file and
no address, whatever the file says.
"""

import base64
import json
import resource
import sys
from array import array
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
from av.audio.fifo import AudioFifo
from av.audio.resampler import AudioResampler
from av.video.frame import VideoFrame

from wa_orchestrator.messages.conversion import ogg_opus

_CPU_S: Final = 60
_MEMORY: Final = 1536 << 20
_LONGEST_FILE: Final = 64 << 20
_LONGEST_VOICE_S: Final = 1800
_MOST_PIXELS: Final = 60_000_000
_THUMBNAIL_PX: Final = 72
_STICKER_PX: Final = 512
UNREADABLE: Final = 2
#: Playlists and the like, which name other files and addresses, are not among them.
_FORMATS: Final = (
    "wav,mp3,ogg,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,aac,amr,flac,aiff,asf,avi,caf,image2,image2pipe,"
    "jpeg_pipe,png_pipe,webp_pipe,gif,bmp_pipe,mjpeg,webp_anim"
)

Facts = dict[str, Any]


def limit() -> None:
    """Take away what a decoder has no use for."""
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LONGEST_FILE, _LONGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _open(source: Path) -> Any:
    only = {"protocol_whitelist": "none", "format_whitelist": _FORMATS}
    return av.open(source.open("rb"), mode="r", metadata_errors="ignore", options=only)


def voice(source: Path, target: Path) -> Facts:
    """Write a voice note of any sound that the file has."""
    encoder: Any = av.CodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format, encoder.bit_rate = ogg_opus.RATE, "mono", "s16", 20_000
    encoder.options = {"application": "voip", "frame_duration": "20", "vbr": "on"}
    encoder.open()
    frames, levels, samples = [], [], 0
    for frame, count in _pieces(source):
        levels.append(_level(frame))
        samples += count
        if samples > _LONGEST_VOICE_S * ogg_opus.RATE:
            raise ValueError("too long")
        frames += [bytes(packet) for packet in encoder.encode(frame)]
    frames += [bytes(packet) for packet in encoder.encode(None)]
    if not samples:
        raise ValueError("no sound")
    preskip = int.from_bytes(bytes(encoder.extradata)[10:12], "little")
    target.write_bytes(ogg_opus.write([frame for frame in frames if frame], samples, preskip))
    shown = base64.b64encode(ogg_opus.waveform(levels)).decode()
    return {"seconds": max(1, round(samples / ogg_opus.RATE)), "waveform": shown}


def _pieces(source: Path) -> Iterator[tuple[Any, int]]:
    """Yield the sound in frames of 20 ms, and how many of its samples are not silence at the end."""
    resampler, fifo, size = AudioResampler("s16", "mono", ogg_opus.RATE), AudioFifo(), ogg_opus.FRAME_SAMPLES
    with _open(source) as container:
        for frame in container.decode(audio=0):
            frame.pts = None  # recordings of browsers begin at any time
            for even in resampler.resample(frame):
                fifo.write(even)
            while piece := fifo.read(size):
                yield piece, size
    for even in resampler.resample(None):
        fifo.write(even)
    while piece := fifo.read(size, partial=True):
        count = piece.samples
        yield _filled(piece, size), count


def _filled(piece: Any, size: int) -> Any:
    if piece.samples == size:
        return piece
    whole = av.AudioFrame(format="s16", layout="mono", samples=size)
    sound = bytes(piece.planes[0])[: piece.samples * 2]
    whole.planes[0].update(sound.ljust(whole.planes[0].buffer_size, b"\0"))
    whole.sample_rate = ogg_opus.RATE
    return whole


def _level(frame: Any) -> float:
    sound = array("h", bytes(frame.planes[0])[: frame.samples * 2])
    return sum(map(abs, sound)) / max(1, len(sound))


def picture(source: Path, _target: Path) -> Facts:
    """Return the size of a picture and a preview."""
    frame, _ = _first_frame(source)
    return {"width": frame.width, "height": frame.height, "thumbnail": _thumbnail(frame)}


def video(source: Path, _target: Path) -> Facts:
    """Return the size and length of a video and a preview."""
    frame, seconds = _first_frame(source)
    return {"width": frame.width, "height": frame.height, "thumbnail": _thumbnail(frame), "seconds": seconds}


def sticker(source: Path, target: Path) -> Facts:
    """Write a sticker: WebP of 512 by 512. One that is it already, also one that moves, stays as it is."""
    raw = source.read_bytes()
    if _is_sticker(raw):
        target.write_bytes(raw)
        return {"width": _STICKER_PX, "height": _STICKER_PX, "animated": b"ANIM" in raw[:64]}
    frame, _ = _first_frame(source)
    scale = _STICKER_PX / max(frame.width, frame.height)
    width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    small = frame.reformat(width=width, height=height, format="bgra")
    encoder: Any = av.CodecContext.create("libwebp", "w")
    encoder.width = encoder.height = _STICKER_PX
    encoder.pix_fmt, encoder.time_base = "bgra", Fraction(1)
    encoder.options = {"quality": "75", "compression_level": "6"}
    packets = [*encoder.encode(_centered(small)), *encoder.encode(None)]
    target.write_bytes(b"".join(bytes(packet) for packet in packets))
    return {"width": _STICKER_PX, "height": _STICKER_PX, "animated": False}


def _is_sticker(raw: bytes) -> bool:
    if raw[:4] != b"RIFF" or raw[8:12] != b"WEBP":
        return False
    if raw[12:16] == b"VP8X":
        size = (int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1)
    elif raw[12:16] == b"VP8L":
        bits = int.from_bytes(raw[21:25], "little")
        size = ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    else:
        size = (int.from_bytes(raw[26:28], "little") & 0x3FFF, int.from_bytes(raw[28:30], "little") & 0x3FFF)
    return size == (_STICKER_PX, _STICKER_PX)


def _centered(frame: VideoFrame) -> VideoFrame:
    """Return a picture in the middle of a transparent square."""
    whole = VideoFrame(_STICKER_PX, _STICKER_PX, "bgra")
    plane, source = whole.planes[0], frame.planes[0]
    line, rows, drawn = plane.line_size, bytearray(plane.buffer_size), bytes(source)
    top, left = (_STICKER_PX - frame.height) // 2, (_STICKER_PX - frame.width) // 2 * 4
    for row in range(frame.height):
        begins = (top + row) * line + left
        rows[begins : begins + frame.width * 4] = drawn[
            row * source.line_size : row * source.line_size + frame.width * 4
        ]
    plane.update(bytes(rows))
    return whole


def _first_frame(source: Path) -> tuple[VideoFrame, int]:
    with _open(source) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        if stream.width * stream.height > _MOST_PIXELS:
            raise ValueError("too many pixels")
        seconds = round((container.duration or 0) / av.time_base)
        for frame in container.decode(video=0):
            return frame, max(1, seconds)
    raise ValueError("no picture")


def _thumbnail(frame: VideoFrame) -> str:
    scale = _THUMBNAIL_PX / max(frame.width, frame.height)
    # Colours are halved in both directions, so sides are even.
    width, height = (max(2, round(side * scale) // 2 * 2) for side in (frame.width, frame.height))
    small = frame.reformat(width=width, height=height, format="yuvj420p")
    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = width, height, "yuvj420p", Fraction(1)
    packets = [*encoder.encode(small), *encoder.encode(None)]
    return base64.b64encode(b"".join(bytes(packet) for packet in packets)).decode()


_MAKERS: Final[dict[str, Callable[[Path, Path], Facts]]] = {
    "voice": voice, "image": picture, "video": video, "sticker": sticker,
}  # fmt: skip


def main() -> int:
    what, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    limit()
    av.logging.set_level(None)
    try:
        facts = _MAKERS[what](source, target)
    except (av.FFmpegError, ValueError, IndexError, OSError, MemoryError) as error:
        sys.stderr.write(f"{type(error).__name__}\n")
        return UNREADABLE
    sys.stdout.write(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
