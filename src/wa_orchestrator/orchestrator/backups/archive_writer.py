"""Writes the archive of a backup: a zip whose last bytes are a checksum of all others, optionally encrypted by age."""

import hashlib
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyrage

from wa_orchestrator.orchestrator.backups.manifest import MANIFEST, File, Manifest

#: The comment of the zip: a checksum of everything before it, so that any changed byte is noticed.
COMMENT: Final = b"sha256:" + b"0" * 64
_CHUNK: Final = 1024 * 1024
#: Zip stores local times; a fixed one tells nothing and is always valid.
_DATE: Final = (1980, 1, 1, 0, 0, 0)


def digest_of(path: Path, *, leave_out: int = 0) -> str:
    """Return the SHA-256 of a file, without its last bytes."""
    left = path.stat().st_size - leave_out
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            hashed.update(chunk)
            left -= len(chunk)
    return hashed.hexdigest()


def describe(directory: Path, names: Iterable[str]) -> tuple[File, ...]:
    """Return what a manifest says about files."""
    return tuple(File(name, (directory / name).stat().st_size, digest_of(directory / name)) for name in names)


def write(directory: Path, manifest: Manifest, target: Path) -> None:
    """Write the manifest and its files into a zip. When it returns, the file is on disk."""
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        _add(archive, MANIFEST, manifest.encode().encode())
        for file in manifest.files:
            entry = _entry(file.name)
            with (directory / file.name).open("rb") as source, archive.open(entry, "w", force_zip64=True) as sink:
                while chunk := source.read(_CHUNK):
                    sink.write(chunk)
        archive.comment = COMMENT
    digest = b"sha256:" + digest_of(target, leave_out=len(COMMENT)).encode()
    with target.open("r+b") as written:
        written.seek(-len(COMMENT), os.SEEK_END)
        written.write(digest)
        written.flush()
        os.fsync(written.fileno())


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100600 << 16
    return entry


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(_entry(name), content)


def encrypt(source: Path, target: Path, recipient: str) -> Any:
    """Encrypt a file to a recipient. Return an identity of this moment with which it can be read back.

    Without the second, temporary recipient nobody here could verify what was written; its key is never stored.
    """
    temporary = pyrage.x25519.Identity.generate()
    with source.open("rb") as plain, target.open("xb") as sealed:
        pyrage.encrypt_io(plain, sealed, [_recipient(recipient), temporary.to_public()])
        sealed.flush()
        os.fsync(sealed.fileno())
    return temporary


def _recipient(text: str) -> Any:
    kind = pyrage.x25519 if text.startswith("age1") else pyrage.ssh
    return kind.Recipient.from_str(text)
