"""Prepares uploads for WhatsApp in a process of their own: converts voice notes and stickers, describes the rest."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import structlog

from wa_orchestrator.domain.messages.content import MediaKind
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.messages import uploads
from wa_orchestrator.messages.uploads import Upload
from wa_orchestrator.settings import Settings

_CONVERTER: Final = "wa_orchestrator.messages.conversion.converter"
_TIMEOUT_S: Final = 120.0
#: Decoders at once in this process; more would wait for a core anyway.
_AT_ONCE: Final = asyncio.Semaphore(2)
#: Kinds that are sent as another file than the one that was given, and its type.
_CONVERTED: Final = {MediaKind.VOICE: "audio/ogg; codecs=opus", MediaKind.STICKER: "image/webp"}
_DESCRIBED: Final = frozenset({MediaKind.IMAGE, MediaKind.VIDEO})

log = structlog.get_logger(__name__)


async def prepared(settings: Settings, upload: Upload, kind: MediaKind) -> Upload:
    """Return the upload that is sent as this kind. Raises `Refused` for a file that cannot be made into it.

    What was made of an upload is remembered with it: a batch names the same file a thousand times.
    """
    if kind in _CONVERTED:
        known = await uploads.open(settings, str(upload.facts.get(kind, "")))
        return known or await _converted(settings, upload, kind)
    if kind in _DESCRIBED and "described" not in upload.facts:
        async with upload.on_disk() as path:
            described = await facts(kind, path)
        return await uploads.add_facts(settings, upload, {**described, "described": True})
    return upload


async def facts(kind: MediaKind, file: Path) -> dict[str, Any]:
    """Return what is shown of a picture or a video before it is opened; nothing of one that cannot be read."""
    return await _run(kind, file, Path("-")) or {}


async def _converted(settings: Settings, upload: Upload, kind: MediaKind) -> Upload:
    with tempfile.TemporaryDirectory(prefix="conversion-") as directory:
        target = Path(directory) / "out"
        async with upload.on_disk() as source:
            made_of = await _run(kind, source, target)
        if made_of is None:
            text = f"This file cannot be made into a {kind}. Send a sound that plays, or a picture."
            raise Refused("UNREADABLE_MEDIA", text, 422)
        made = await uploads.save(
            settings, _chunk(target.read_bytes()), mimetype=_CONVERTED[kind], filename=upload.filename,
            owner=upload.owner,
        )  # fmt: skip
    made = await uploads.add_facts(settings, made, made_of)
    await uploads.add_facts(settings, upload, {kind: made.id})
    return made


async def _run(kind: MediaKind, source: Path, target: Path) -> dict[str, Any] | None:
    """Return the facts that the converter told; None where it could not read the file."""
    async with _AT_ONCE:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", _CONVERTER, kind, str(source), str(target),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                told, _ = await process.communicate()
        except TimeoutError:
            raise Unavailable("CONVERSION_BUSY", "The file could not be converted in time. Try again.") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        log.info("media.unreadable", kind=kind, code=process.returncode)
        return None
    facts: dict[str, Any] = json.loads(told)
    return facts


async def _chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data
