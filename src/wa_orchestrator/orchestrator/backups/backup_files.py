"""The files of BACKUPS_DIR: one archive per backup, and beside it a note of what is in it."""

import contextlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from wa_orchestrator.domain import backup_schedule
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.backups.archive_writer import digest_of
from wa_orchestrator.settings import Settings

#: Unfinished work of a backup: never listed, removed when the next one begins.
UNFINISHED: Final = ".unfinished"
_NAME: Final = re.compile(r"(backup_\d{4}-\d{2}-\d{2}(?:_\d{6}(?:_\d)?)?)\.zip(\.age)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BackupNote:
    """What is known about a backup without opening it. It holds no secret and no phone."""

    id: str
    file: str
    bytes: int
    created_at: int
    version: str
    sessions: tuple[str, ...]
    encrypted: bool
    sha256: str
    verified_at: int
    has_secrets: bool
    needs_auth_key: bool
    """The credentials are sealed with AUTH_KEY, and the archive does not contain it."""
    cursor: str = ""
    """The last event that the backup includes."""
    has_history: bool = False
    """It contains the history that had left Redis for the archive on disk."""
    copied: bool = False
    """Second copies are everywhere where they should be: BACKUP_COPY_DIR, BACKUP_S3_URL."""
    left_out: tuple[str, ...] = ()
    """Sessions that are linked, or were to start with credentials they were given, which are missing or unreadable."""


def sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def new_id(settings: Settings, now: datetime) -> str:
    """Return a free id for a backup of this local time: its day, and the time too if the day has one.

    It comes after all others of its day, also if the first of them are deleted: ids sort by age.
    """
    day, second = f"backup_{now:%Y-%m-%d}", f"backup_{now:%Y-%m-%d_%H%M%S}"
    newest = max((each.id for each in listed(settings) if each.id.startswith(day)), default="")
    names = [day, second, *(f"{second}_{number}" for number in range(1, 10))]
    return next((name for name in names if name > newest), names[-1])


def listed(settings: Settings) -> list[BackupNote]:
    """Return all backups, the newest first."""
    if not settings.backups_dir.is_dir():
        return []
    found = [_note_of(path) for path in settings.backups_dir.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(
        (each for each in found if each is not None), key=lambda each: (each.created_at, each.id), reverse=True
    )


def _note_of(path: Path) -> BackupNote | None:
    """Return the note beside an archive; what the file itself shows if there is none, as when it was brought here."""
    named = _NAME.fullmatch(path.name)
    if named is None or path.is_symlink() or not path.is_file():
        return None
    size = path.stat()
    with contextlib.suppress(OSError, ValueError, TypeError):
        note = BackupNote(**json.loads(note_path(path).read_text("utf-8")))
        if (note.id, note.bytes) == (named[1], size.st_size):
            named_in_it = {"sessions": tuple(note.sessions), "left_out": tuple(note.left_out)}
            return BackupNote(**asdict(note) | named_in_it | {"file": path.name})
    return BackupNote(
        named[1], path.name, size.st_size, round(size.st_mtime * 1000), "", (), bool(named[2]), "", 0, False, False
    )  # fmt: skip


def id_in(file_name: str) -> str:
    """Return the id in the name of an archive; '' if it is none."""
    named = _NAME.fullmatch(file_name)
    return named[1] if named else ""


def note_path(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.json")


def find(settings: Settings, backup_id: str) -> BackupNote:
    """Return the backup with this id. Raises `Refused` if there is none."""
    for each in listed(settings):
        if each.id == backup_id:
            return each
    text = f"There is no backup {backup_id[:80]!r} in BACKUPS_DIR. GET /api/v1/backups lists them."
    raise Refused("NO_SUCH_BACKUP", text, 404)


def path_of(settings: Settings, note: BackupNote) -> Path:
    return settings.backups_dir / note.file


def write_note(settings: Settings, note: BackupNote) -> None:
    target = note_path(path_of(settings, note))
    draft = target.with_name(f"{UNFINISHED}-{target.name}")
    draft.write_text(json.dumps(asdict(note), indent=1) + "\n", "utf-8")
    draft.chmod(0o600)
    draft.replace(target)


def publish(settings: Settings, finished: Path, note: BackupNote) -> None:
    """Give a verified archive its name. The note comes first: an archive that is listed has one."""
    write_note(settings, note)
    finished.replace(path_of(settings, note))
    sync_directory(settings.backups_dir)


def copy(source: Path, target_dir: Path, sha256: str) -> None:
    """Copy an archive and its note to another directory, and compare what arrived there. Raises OSError."""
    target_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = target_dir / f"{UNFINISHED}-{source.name}"
    try:
        shutil.copyfile(source, draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        if digest_of(draft) != sha256:
            raise OSError("the copy differs from the backup")
        draft.chmod(0o600)
        shutil.copyfile(note_path(source), note_path(target_dir / source.name))
        draft.replace(target_dir / source.name)
        sync_directory(target_dir)
    finally:
        draft.unlink(missing_ok=True)


def prune(directory: Path, keep: int) -> list[str]:
    """Delete the oldest archives beyond `keep`, with their notes. Return their ids."""
    archives = {found: path for path in directory.iterdir() if (found := id_in(path.name))}
    gone = backup_schedule.surplus(list(archives), keep)
    for backup_id in gone:
        archives[backup_id].unlink(missing_ok=True)
        note_path(archives[backup_id]).unlink(missing_ok=True)
    return gone


def remove_unfinished(settings: Settings) -> None:
    """Remove what an interrupted backup left. The caller must hold the right to make backups."""
    for path in settings.backups_dir.glob(f"{UNFINISHED}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
