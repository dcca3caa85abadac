"""Prepares a restore: checks the archive completely in a directory of its own and says what would change.

The directory is the journal of the restore. While its name ends in `.new` nothing has been decided; renaming it is the
decision, and the leader carries it out, again after a crash, until it is gone.
"""

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.backups import archive_reader, backup_files
from wa_orchestrator.orchestrator.backups import manifest as manifests
from wa_orchestrator.orchestrator.backups.backup_files import BackupNote
from wa_orchestrator.orchestrator.backups.manifest import Manifest
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.backups import state_dump
from wa_orchestrator.store.records import Session

PLACE: Final = ".restore"
PLAN: Final = "plan.json"
FILES: Final = "files"
OUTCOMES: Final = "outcomes"
_NEW: Final = ".new"
_ABANDONED_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Plan:
    """A decided restore."""

    id: str
    backup: str
    whole: bool
    """Into an installation without sessions: everything comes from the backup. Else sessions alone do."""
    sessions: tuple[str, ...]
    by: str
    created_at: int
    cursor: str


@dataclass(frozen=True, slots=True)
class SavedRecords:
    """The records of sessions and of proxies in a backup, by their ids."""

    sessions: Mapping[str, Mapping[str, str]]
    proxies: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Staged:
    """A checked archive, unpacked where nothing uses it."""

    directory: Path
    manifest: Manifest
    saved: SavedRecords

    @property
    def sessions(self) -> Mapping[str, Mapping[str, str]]:
        """The records of its sessions."""
        return self.saved.sessions

    def discard(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a restore would do with each session."""

    returns: tuple[str, ...]
    """They do not exist now."""
    goes_back: tuple[str, ...]
    """They exist; their chat keys go back to the time of the backup."""
    kept: tuple[str, ...]
    """They were linked again after the backup: their old link is dead, so they stay as they are."""
    untouched: tuple[str, ...]
    """They are not in the backup, or were not chosen."""
    older: tuple[str, ...]
    """Of those that go back: they were online after the backup, so messages may be lost or unreadable."""
    no_room: tuple[str, ...] = ()
    """Of those that return: their proxy has no free slot now, or is gone. They wait for another one."""
    phone_full: tuple[str, ...] = ()
    """They do not exist and do not return: their phones have as many sessions as they may."""


def saved_records(path: Path) -> SavedRecords:
    """Return the records of sessions and of proxies in a state."""
    found: dict[str, dict[str, str]] = {}
    proxies: dict[str, dict[str, str]] = {}
    for line in archive_reader.lines_of(path):
        if line.kind != "hash":
            continue
        if session_id := state_dump.session_id_of(line.key):
            found[session_id] = line.pairs
        elif proxy_id := state_dump.proxy_id_of(line.key):
            proxies[proxy_id] = line.pairs
    return SavedRecords(found, proxies)


def _place(settings: Settings) -> Path:
    return settings.sessions_dir.absolute() / PLACE


def stage(settings: Settings, note: BackupNote, identity: str | None) -> Staged:
    """Check a backup and unpack it. Raises `Refused` with the reason; then nothing is left behind."""
    place = _place(settings)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_abandoned(place)
    directory = place / f"restore-{token_hex(6)}{_NEW}"
    directory.mkdir(mode=0o700)
    try:
        archive = backup_files.path_of(settings, note)
        if note.encrypted:
            plain = directory / "archive.zip"
            archive_reader.decrypt(archive, plain, archive_reader.identity_of(identity) if identity else None)
            archive = plain
        manifest = archive_reader.unpack(archive, directory / FILES)
        if note.encrypted:
            archive.unlink()
        _check_auth_key(settings, manifest)
        _check_credentials(settings, manifest)
        return Staged(directory, manifest, saved_records(directory / FILES / manifests.STATE))
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        text = f"The backup cannot be unpacked in SESSIONS_DIR ({error.strerror}). Nothing was changed."
        raise Refused("FILES_UNAVAILABLE", text, 507) from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _check_auth_key(settings: Settings, manifest: Manifest) -> None:
    if manifest.is_sealed and manifest.auth_key not in manifests.known_fingerprints(settings):
        text = (
            "The credentials in the backup are sealed with the AUTH_KEY of the installation that made it. Set that "
            "AUTH_KEY (an encrypted backup contains it, see docs/backups.md) and restart. Nothing was changed."
        )
        raise Refused("BACKUP_AUTH_KEY", text, 422)


def _check_credentials(settings: Settings, manifest: Manifest) -> None:
    if manifest.has_server_copies and settings.credentials != "server":
        text = (
            "The credentials in the backup are as a server with CREDENTIALS=server keeps them. Set that and restart. "
            "Nothing was changed."
        )
        raise Refused("BACKUP_CREDENTIALS", text, 422)


def _remove_abandoned(place: Path) -> None:
    """Remove what a killed server was checking: nothing had been decided."""
    for path in place.glob(f"*{_NEW}"):
        if time.time() - path.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)


def compare(staged: Staged, current: Sequence[Session], chosen: Sequence[str] | None) -> Changes:
    """Return what restoring the chosen sessions (None: all) would change. Raises `Refused` for one it does not have."""
    saved = [each.id for each in staged.manifest.sessions if each.id in staged.sessions]
    if missing := set(chosen or ()) - set(saved):
        raise Refused("NOT_IN_BACKUP", f"The backup has no session {min(missing)}.", 404)
    wanted = [each for each in saved if chosen is None or each in chosen]
    now = {str(session.id): session for session in current}
    at = staged.manifest.created_at
    kept = [each for each in wanted if each in now and _linked_again(now[each], staged.sessions[each])]
    goes_back = [each for each in wanted if each in now and each not in kept]
    return Changes(
        returns=tuple(each for each in wanted if each not in now),
        goes_back=tuple(goes_back),
        kept=tuple(kept),
        untouched=tuple(sorted(set(now) - set(wanted))),
        older=tuple(each for each in goes_back if max(now[each].last_traffic_at, now[each].connected_at) > at),
    )


def _linked_again(session: Session, saved: Mapping[str, str]) -> bool:
    """Whether a session was linked anew after the backup: as another device, of the same phone or of another."""
    return bool(session.jid) and session.jid != saved.get("jid", "") and bool(session.first_connected_at)


def commit(staged: Staged, plan: Plan) -> None:
    """Decide the restore. When it returns, it will be carried out, whatever dies."""
    path = staged.directory / PLAN
    path.write_text(json.dumps(asdict(plan)), "utf-8")
    for directory in (staged.directory, *(each for each in staged.directory.rglob("*") if each.is_dir())):
        backup_files.sync_directory(directory)
    staged.directory.rename(staged.directory.with_name(plan.id))
    backup_files.sync_directory(staged.directory.parent)


def decided(settings: Settings) -> Iterator[tuple[Path, Plan]]:
    """Yield the restores that are decided and not finished."""
    for path in sorted(_place(settings).glob("restore-*")):
        if path.suffix != _NEW and (path / PLAN).is_file():
            raw: dict[str, Any] = json.loads((path / PLAN).read_text("utf-8"))
            yield path, Plan(**raw | {"sessions": tuple(raw["sessions"])})


def note_outcome(directory: Path, session_id: str, outcome: RestoreOutcome) -> None:
    """Note that a restore is done with a session."""
    with (directory / OUTCOMES).open("a", encoding="utf-8") as file:
        file.write(f"{session_id} {outcome}\n")


def noted_outcomes(directory: Path) -> dict[str, RestoreOutcome]:
    """Return the sessions that a restore is done with. A line that a crash tore is left out: that one is done again."""
    try:
        text = (directory / OUTCOMES).read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    found = [line.partition(" ") for line in text.splitlines()]
    return {session_id: RestoreOutcome(why) for session_id, _, why in found if why in set(RestoreOutcome)}


def plan_id(staged: Staged) -> str:
    return staged.directory.name.removesuffix(_NEW)


def finish(directory: Path) -> None:
    """Forget a restore that is carried out: by one rename, then what is left of its files goes."""
    done = directory.with_name(f"{directory.name}{_NEW}")
    directory.rename(done)
    shutil.rmtree(done, ignore_errors=True)
