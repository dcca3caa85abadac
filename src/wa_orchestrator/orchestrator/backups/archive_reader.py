"""Checks an archive completely and unpacks it into a directory of its own; nothing else is touched."""

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyrage

from wa_orchestrator.archive import sqlite_copies
from wa_orchestrator.domain.sessions import baileys_account
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.backups import manifest as manifests
from wa_orchestrator.orchestrator.backups.archive_writer import COMMENT, digest_of
from wa_orchestrator.orchestrator.backups.manifest import MANIFEST, STATE, File, Manifest, damaged, unsafe
from wa_orchestrator.orchestrator.sessions import worker_owned_files
from wa_orchestrator.store.backups import state_dump
from wa_orchestrator.store.sessions import stored_credentials
from wa_orchestrator.store.sessions.stored_credentials import StoredCredentials

_MAX_MANIFEST_BYTES: Final = 16 * 1024**2
#: Real backups compress to a fifth; a bomb claims a thousand times its size.
_MAX_RATIO: Final = 200
_RATIO_FROM_BYTES: Final = 1024**2
_CHUNK: Final = 1024 * 1024
_FORMAT_OF_STORE: Final = 1
#: A store of gigabytes takes less; one whose tables are views may take for ever.
_CHECKED_WITHIN_S: Final = 300.0
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)


def identity_of(text: str) -> Any:
    """Return a secret key: of age, or of SSH. Raises `Refused` if it is none."""
    with contextlib.suppress(pyrage.IdentityError, ValueError, TypeError):
        return pyrage.x25519.Identity.from_str(_age_line(text))
    with contextlib.suppress(pyrage.IdentityError, ValueError, TypeError):
        return pyrage.ssh.Identity.from_buffer(text.encode())
    raise Refused("BACKUP_KEY_WRONG", "This is not a secret key of age (AGE-SECRET-KEY-…) or SSH.", 422)


def _age_line(text: str) -> str:
    """Return the key in a file that age-keygen wrote; its comments name the public key."""
    return next((line.strip() for line in text.splitlines() if line.startswith("AGE-SECRET-KEY-")), text.strip())


def decrypt(source: Path, target: Path, identity: Any | None) -> None:
    """Decrypt an archive; `Refused` without the right key, and for anything that was changed."""
    if identity is None:
        text = "The backup is encrypted. Give the secret key that belongs to BACKUP_RECIPIENT. Nothing was changed."
        raise Refused("BACKUP_KEY_NEEDED", text, 422)
    try:
        with source.open("rb") as sealed, _private(target) as plain:
            pyrage.decrypt_io(sealed, plain, [identity])
    except pyrage.DecryptError as error:
        if "No matching keys" in str(error):
            text = "The backup is encrypted to another key. Nothing was changed."
            raise Refused("BACKUP_KEY_WRONG", text, 422) from error
        raise damaged("The archive cannot be decrypted: it is cut off or was changed.") from error
    except OSError as error:  # what the library says about a payload that is cut off
        raise damaged("The archive cannot be decrypted: it is cut off or was changed.") from error


def _private(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def unpack(source: Path, target: Path) -> Manifest:
    """Check an archive and unpack it into a new directory. Raises `Refused`; what was unpacked until then stays."""
    target.mkdir(mode=0o700)
    if not _is_whole(source):
        raise damaged("The archive is cut off or was changed: its checksum does not match.")
    try:
        with zipfile.ZipFile(source) as archive:
            manifest = _manifest_in(archive)
            _check_entries(archive, manifest)
            _check_space(manifest, target)
            for file in manifest.files:
                _extract(archive, file, target)
    except _UNREADABLE as error:
        raise damaged("The archive cannot be read.") from error
    _check_state(target / STATE)
    if any(file.name == manifests.HISTORY for file in manifest.files):
        _check_history(target / manifests.HISTORY)
    for session in manifest.sessions:
        match session.how:
            case manifests.IMPORTED:
                imported_files(target / session.file)
            case manifests.SERVER:
                server_copy(target / session.file)
            case _:
                check_store(target / session.file, session.id)
    return manifest


def _is_whole(path: Path) -> bool:
    size = path.stat().st_size
    if size < len(COMMENT):
        return False
    with path.open("rb") as file:
        file.seek(-len(COMMENT), os.SEEK_END)
        said = file.read()
    return said == b"sha256:" + digest_of(path, leave_out=len(COMMENT)).encode()


def _manifest_in(archive: zipfile.ZipFile) -> Manifest:
    entries = [entry for entry in archive.infolist() if entry.filename == MANIFEST]
    if not entries:
        raise damaged("The archive has no manifest.")
    if len(entries) > 1:
        raise unsafe("The archive has two manifests.")
    if entries[0].file_size > _MAX_MANIFEST_BYTES:
        raise _too_large()
    with archive.open(entries[0]) as opened:
        return manifests.parse(opened.read(_MAX_MANIFEST_BYTES))


def _check_entries(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    """Compare what the archive has with what its manifest names, before anything is unpacked."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names):
        raise unsafe("The archive has two files of one name.")
    named = {file.name: file for file in manifest.files}
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if entry.is_dir() or kind not in (0, stat.S_IFREG):
            raise unsafe(f"The archive has a link or directory {entry.filename[:80]!r}.")
        if entry.filename != MANIFEST and entry.filename not in named:
            raise unsafe(f"The archive has a file {entry.filename[:80]!r} that its manifest does not name.")
        _check_size(entry, named.get(entry.filename))
    if missing := set(named) - set(names):
        raise damaged(f"The archive lacks {min(missing)}.")
    if sum(entry.compress_size for entry in entries) > archive.fp.seek(0, os.SEEK_END):  # type: ignore[union-attr]
        raise unsafe("The files of the archive overlap.")


def _check_size(entry: zipfile.ZipInfo, file: File | None) -> None:
    if file is not None and entry.file_size != file.bytes:
        raise damaged(f"{entry.filename} has another size than the manifest says.")
    if entry.file_size > _RATIO_FROM_BYTES and entry.file_size > _MAX_RATIO * max(1, entry.compress_size):
        raise _too_large()


def _too_large() -> Refused:
    text = "The archive unpacks to far more than its size: it is not a backup of this product. Nothing was changed."
    return Refused("BACKUP_TOO_LARGE", text, 422)


def _check_space(manifest: Manifest, target: Path) -> None:
    needed = sum(file.bytes for file in manifest.files)
    if needed > shutil.disk_usage(target).free:
        text = f"The backup needs {needed} bytes in SESSIONS_DIR; the disk has less. Free some. Nothing was changed."
        raise Refused("DISK_FULL", text, 507)


def _extract(archive: zipfile.ZipFile, file: File, target: Path) -> None:
    """Unpack one file of the manifest, never more than it says, to a name that is made of the checked one."""
    path = target / file.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hashed, left = hashlib.sha256(), file.bytes
    with archive.open(file.name) as source, _private(path) as sink:
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise _too_large()
            hashed.update(chunk)
            sink.write(chunk)
        sink.flush()
        os.fsync(sink.fileno())
    if left or hashed.hexdigest() != file.sha256:
        raise damaged(f"{file.name} does not have the checksum that the manifest says.")


def lines_of(path: Path) -> Iterator[state_dump.StateLine]:
    """Yield the lines of a state of Redis."""
    with path.open(encoding="utf-8") as file:
        for text in file:
            yield state_dump.decode(text)


def _check_state(path: Path) -> None:
    try:
        for _ in lines_of(path):
            pass
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise damaged("The state of Redis in the archive cannot be read.") from error


def _check_history(path: Path) -> None:
    try:
        sqlite_copies.check(path)
    except ValueError as error:
        raise damaged(f"The history in the archive cannot be used: {error}.") from error


def imported_files(path: Path) -> Mapping[str, str]:
    """Return the checked files of an account that another program wrote: names without a directory, and contents."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if isinstance(content, dict) and all(isinstance(each, str) for each in content.values()):
            return baileys_account.read(content).files
    except (Refused, ValueError, RecursionError) as error:
        raise damaged("The imported credentials of a session are damaged.") from error
    raise damaged("The imported credentials of a session are damaged.")


def server_copy(path: Path) -> StoredCredentials:
    """Return what a session's worker had stored on the server. That it is of this session, its seal says."""
    try:
        return stored_credentials.unpack(path.read_bytes())
    except ValueError as error:
        raise damaged("The credentials of a session are damaged.") from error


def check_store(path: Path, session_id: str) -> bool:
    """Check the integrity of an auth.db and that it belongs to its session. Return whether it is sealed."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            worker_owned_files.limit(opened, _CHECKED_WITHIN_S)
            (verdict,) = opened.execute("PRAGMA integrity_check(1)").fetchone()
            meta = dict(opened.execute("SELECT name, value FROM meta").fetchall())
            (credentials,) = opened.execute("SELECT count(*) FROM keys").fetchone()
    except sqlite3.Error as error:
        raise damaged(f"The credentials of {session_id} cannot be read.") from error
    if verdict != "ok" or not credentials:
        raise damaged(f"The credentials of {session_id} are damaged.")
    if meta.get("session") != session_id:
        raise damaged(f"The credentials of {session_id} belong to another session.")
    if meta.get("format") != _FORMAT_OF_STORE:
        raise Refused("BACKUP_NEWER", f"The credentials of {session_id} were written by another version.", 422)
    return meta.get("sealed") == 1
