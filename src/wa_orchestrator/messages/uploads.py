"""Uploaded files: stored in the data directory by id until they expire.

An upload is two files, `<id>` and `<id>.json`; the second is written last, so an upload with a description is complete.
The mtime of the description is the time at which the upload expires.
"""

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import upload_quota
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
LARGEST: Final = {"image": 16 * _MIB, "audio": 16 * _MIB, "video": 64 * _MIB, "document": MAX_UPLOAD_BYTES}
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
    path: Path
    mimetype: str
    filename: str
    size: int
    owner: str = ""
    """The API key that uploaded it."""


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
    path = _directory(settings) / upload_id
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with upload_quota.reserved(settings, path.parent, owner) as room:
            size = await _write(path, chunks, LARGEST[kind_of(mimetype)], room)
            upload = Upload(upload_id, path, mimetype, filename, size, owner)
            await asyncio.to_thread(_describe, upload)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return upload


def open(settings: Settings, upload_id: str) -> Upload | None:  # noqa: A001 (called as `uploads.open`)
    """Return an upload, or None when it does not exist or has expired."""
    if not _ID.fullmatch(upload_id):
        return None
    path = _directory(settings) / upload_id
    described = path.with_suffix(".json")
    try:
        if described.stat().st_mtime <= time.time():
            return None
        raw = json.loads(described.read_text("utf-8"))
        return Upload(upload_id, path, raw["mimetype"], raw["filename"], raw["size"], raw.get("owner", ""))
    except (OSError, ValueError, KeyError):
        return None


def keep_for(settings: Settings, upload_id: str, seconds: float) -> None:
    """Extend the lifetime of an upload, because a message uses it. It is never shortened."""
    described = (_directory(settings) / upload_id).with_suffix(".json")
    ends = max(time.time() + seconds, described.stat().st_mtime)
    os.utime(described, (ends, ends))


def sweep(settings: Settings, *, most: int = 1000) -> int:
    """Delete expired uploads and incomplete ones that a crash left behind. Returns their number."""
    directory, now = _directory(settings), time.time()
    if not directory.is_dir():
        return 0
    names = sorted({path.stem for path in directory.iterdir()})
    expired = [name for name in names if _is_expired(directory / name, now)][:most]
    for name in expired:
        for suffix in ("", ".part", ".json"):  # the description last: without it the rest would stay for another day
            (directory / name).with_suffix(suffix).unlink(missing_ok=True)
    return len(expired)


def _is_expired(path: Path, now: float) -> bool:
    try:
        return path.with_suffix(".json").stat().st_mtime <= now
    except FileNotFoundError:
        return path.exists() and path.stat().st_mtime + UNUSED_S <= now


def _directory(settings: Settings) -> Path:
    return settings.data_dir / "uploads"


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


def _describe(upload: Upload) -> None:
    draft = upload.path.with_suffix(".part")
    described = {"mimetype": upload.mimetype, "filename": upload.filename, "size": upload.size, "owner": upload.owner}
    draft.write_text(json.dumps(described), "utf-8")
    ends = time.time() + UNUSED_S
    os.utime(draft, (ends, ends))
    draft.rename(upload.path.with_suffix(".json"))
