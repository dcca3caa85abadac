"""Uploaded files: stored by id until they expire.

An upload is two files, `<id>` and `<id>.json`; the second is stored last, so an upload with a description is complete.
The time of the description is the time at which the upload expires.
"""

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import storage, upload_quota
from wa_orchestrator.messages.storage import Shelf
from wa_orchestrator.messages.storage.contract import FileStore, StoredFile
from wa_orchestrator.messages.upload_quota import UploadRoom
from wa_orchestrator.settings import Settings

_ID = re.compile(r"u_[0-9a-f]{32}")
#: Lifetime of an upload that no message uses.
UNUSED_S: Final = 24 * 3600
#: Lifetime after the message was due, because a dead letter can be retried.
USED_S: Final = 30 * 24 * 3600
_MIB: Final = 1024 * 1024
#: The upload size limit; it must not be below the largest of WhatsApp's own limits, which follow.
MAX_UPLOAD_BYTES: Final = 64 * _MIB
LARGEST: Final = {
    "image": 16 * _MIB, "audio": 16 * _MIB, "video": 64 * _MIB, "document": MAX_UPLOAD_BYTES, "voice": 16 * _MIB,
    "sticker": 16 * _MIB,
}  # fmt: skip
_IMAGES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
_VIDEOS = frozenset({"video/mp4", "video/3gpp", "video/quicktime"})
#: Pages and programs that a browser would run; no legitimate message contains them.
_ACTIVE = frozenset(
    {
        "text/html", "application/xhtml+xml", "image/svg+xml", "text/javascript", "application/javascript",
        "application/x-msdownload", "application/x-msdos-program", "application/vnd.android.package-archive",
        "application/x-sh", "application/java-archive",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Upload:
    """A stored file and its description."""

    id: str
    store: FileStore
    mimetype: str
    filename: str
    size: int
    owner: str = ""
    """The API key that uploaded it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the decoder found: size, length, preview; and what was made of it."""

    def on_disk(self) -> AbstractAsyncContextManager[Path]:
        """Give a path to the file that is valid within the block, to read only."""
        return self.store.on_disk(self.id)

    def read(self, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Return the bytes of the file in chunks."""
        return self.store.read(self.id, start, length)


def kind_of(mimetype: str) -> str:
    """Return how WhatsApp shows a file of this type: image, audio, video or document."""
    bare = bare_type(mimetype)
    if bare in _IMAGES:
        return "image"
    if bare in _VIDEOS:
        return "video"
    return "audio" if bare.startswith("audio/") else "document"


def bare_type(mimetype: str) -> str:
    """Return a MIME type without its parameters, in lower case."""
    return mimetype.partition(";")[0].strip().lower()


def check_type(mimetype: str) -> None:
    """Refuse types that are not sent."""
    if "/" not in mimetype or bare_type(mimetype) in _ACTIVE:
        raise Refused(
            "UNSUPPORTED_TYPE", f"Files of the type {mimetype[:80]!r} are not sent. Send a picture, PDF, …", 415
        )


async def save(
    settings: Settings, chunks: AsyncIterator[bytes], *, mimetype: str, filename: str = "", owner: str = ""
) -> Upload:
    """Store a file of an API key. Raises `Refused` for a type or a size that cannot be sent, or where there is no room
    (`upload_quota`), and leaves nothing behind.
    """
    check_type(mimetype)
    upload_id = f"u_{secrets.token_hex(16)}"
    path, store = _directory(settings) / upload_id, _stores(settings)[0]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        async with upload_quota.reserved(settings, owner) as room:
            size = await _write(path, chunks, LARGEST[kind_of(mimetype)], room)
            await store.put(path, upload_id)
            upload = Upload(upload_id, store, mimetype, filename, size, owner)
            await _describe(settings, upload, time.time() + UNUSED_S)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return upload


async def open(settings: Settings, upload_id: str) -> Upload | None:  # noqa: A001 (called as `uploads.open`)
    """Return an upload, or None when it does not exist or has expired."""
    if not _ID.fullmatch(upload_id):
        return None
    for store in _stores(settings):
        try:
            described = await store.find(f"{upload_id}.json")
            if described is None or described.at <= time.time():
                continue
            raw = json.loads(b"".join([chunk async for chunk in described.read()]))
            described_as = (raw["mimetype"], raw["filename"], raw["size"], raw.get("owner", ""), raw.get("facts", {}))
            return Upload(upload_id, store, *described_as)
        except (OSError, ValueError, KeyError):
            continue
    return None


async def keep_for(upload: Upload, seconds: float) -> None:
    """Extend the lifetime of an upload, because a message uses it. It is never shortened."""
    await upload.store.touch(f"{upload.id}.json", time.time() + seconds)


async def add_facts(settings: Settings, upload: Upload, facts: Mapping[str, Any]) -> Upload:
    """Store facts with an upload, whose lifetime stays as it is; returns it with them."""
    known = replace(upload, facts={**upload.facts, **facts})
    described = await upload.store.find(f"{upload.id}.json")
    await _describe(settings, known, described.at if described else time.time() + UNUSED_S)
    return known


async def sweep(settings: Settings, *, most: int = 1000) -> int:
    """Delete expired uploads and incomplete ones that a crash left behind. Returns their number."""
    now, deleted = time.time(), 0
    for store in _stores(settings):
        files: dict[str, dict[str, StoredFile]] = {}
        for file in await store.listed():
            stem, _, suffix = file.name.partition(".")
            files.setdefault(stem, {})[suffix] = file
        for stem in sorted(stem for stem, parts in files.items() if _is_expired(parts, now))[: most - deleted]:
            for suffix in ("", ".part", ".json"):  # the description last: without it the rest would stay for a day more
                await store.remove(f"{stem}{suffix}")
            deleted += 1
        await store.tidy()
    return deleted


def _is_expired(parts: Mapping[str, StoredFile], now: float) -> bool:
    if "json" in parts:
        return parts["json"].at <= now
    return all(file.at + UNUSED_S <= now for file in parts.values())


def _directory(settings: Settings) -> Path:
    return storage.directory(settings, Shelf.UPLOADS)


def _stores(settings: Settings) -> list[FileStore]:
    return storage.stores(settings, Shelf.UPLOADS)


async def _write(path: Path, chunks: AsyncIterator[bytes], most: int, room: UploadRoom) -> int:
    size = 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        async for chunk in chunks:
            size += len(chunk)
            if size > most:
                raise Refused("FILE_TOO_LARGE", f"Files of this kind must not exceed {most} bytes.", 413, limit=most)
            room.take(len(chunk))
            await asyncio.to_thread(_write_all, handle, chunk)
        if not size:
            raise Refused("FILE_EMPTY", "The file is empty.", 422)
        await asyncio.to_thread(os.fsync, handle)
    finally:
        os.close(handle)
    return size


def _write_all(handle: int, chunk: bytes) -> None:
    """Write the whole chunk: on a nearly full disk `os.write` may write only a part of it."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(handle, rest) :]


async def _describe(settings: Settings, upload: Upload, ends: float) -> None:
    described = {"mimetype": upload.mimetype, "filename": upload.filename, "size": upload.size, "owner": upload.owner}
    draft = (_directory(settings) / upload.id).with_suffix(".part")
    draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft.write_text(json.dumps(described | ({"facts": upload.facts} if upload.facts else {})), "utf-8")
    await upload.store.put(draft, f"{upload.id}.json", at=ends)
