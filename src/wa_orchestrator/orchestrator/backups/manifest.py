"""The manifest of a backup: what is in the archive, with sizes and checksums, and what is needed to use it."""

import hashlib
import hmac
import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings

#: Raised when an older version could not restore what this one writes: 2 has copies as the server keeps them.
FORMAT: Final = 2
_WITHOUT_SERVER_COPIES: Final = 1
MANIFEST: Final = "manifest.json"
STATE: Final = "redis.jsonl"
SECRETS: Final = "secrets.json"
HISTORY: Final = "archive/history.db"
#: How credentials were copied that are another program's still, and the name of their file.
IMPORTED: Final = "imported"
IMPORTED_FILE: Final = "imported.json"
#: How credentials were copied that follow their worker (CREDENTIALS=server), and the name of their file.
SERVER: Final = "server"
SERVER_FILE: Final = "server.copy"
_FILES: Final = {IMPORTED: IMPORTED_FILE, SERVER: SERVER_FILE}
#: The only names that an archive may have, besides the manifest.
_NAME: Final = re.compile(
    r"redis\.jsonl|secrets\.json|archive/[\w-]{1,64}\.db|sessions/(?P<session>[\w-]{1,64})/(auth\.db|imported\.json|server\.copy)",
    re.ASCII,
)
_PRODUCT: Final = "wa-orchestrator"
_MAX_FILES: Final = 20_000
_MAX_FILE_BYTES: Final = 16 * 1024**3
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class File:
    """One file of the archive."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session's credentials, and how they were copied: `hot`, `directory` (nothing ran), `stopped`, `server` (as its
    worker stores them there), or `imported` (they are another program's, because its worker has not started yet)."""

    id: str
    how: str
    sealed: bool
    """Encrypted with the installation's AUTH_KEY."""

    @property
    def file(self) -> str:
        """The name of its credentials in the archive."""
        return f"sessions/{self.id}/{_FILES.get(self.how, 'auth.db')}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive contains. It holds no secret."""

    version: str
    created_at: int
    cursor: str
    """The last event that the state of Redis includes."""
    sessions: tuple[SavedSession, ...]
    files: tuple[File, ...]
    auth_key: str = ""
    """A fingerprint of the AUTH_KEY that the credentials are sealed with; empty without one."""

    @property
    def is_sealed(self) -> bool:
        return any(session.sealed for session in self.sessions)

    @property
    def has_server_copies(self) -> bool:
        return any(session.how == SERVER for session in self.sessions)

    def encode(self) -> str:
        needed = FORMAT if self.has_server_copies else _WITHOUT_SERVER_COPIES
        return json.dumps({"product": _PRODUCT, "format": needed, **asdict(self)}, indent=1)


def auth_db(session_id: str) -> str:
    """Return the name of a session's credentials in an archive."""
    return f"sessions/{session_id}/auth.db"


def session_of(name: str) -> str | None:
    """Return the session whose credentials a file of an archive is."""
    found = _NAME.fullmatch(name)
    return found["session"] if found else None


def damaged(text: str) -> Refused:
    return Refused("BACKUP_DAMAGED", f"{text} Nothing was changed. Use another backup.", 422)


def unsafe(text: str) -> Refused:
    return Refused("BACKUP_UNSAFE", f"{text} This product does not write such archives. Nothing was changed.", 422)


def parse(raw: bytes) -> Manifest:
    """Read a manifest. Raises `Refused` if it is of a newer version, names a file it must not, or is none at all."""
    try:
        content = json.loads(raw)
        if not isinstance(content, dict) or content.pop("product") != _PRODUCT:
            raise ValueError("not ours")
        found = content.pop("format")
        if not isinstance(found, int) or found > FORMAT:
            raise _newer(found, content.get("version"))
        manifest = _manifest(content)
    except (ValueError, TypeError, KeyError) as error:
        raise damaged("The archive has no valid manifest.") from error
    _check_names(manifest)
    return manifest


def _newer(found: object, version: object) -> Refused:
    text = (
        f"The backup was made by a newer version ({str(version)[:40]}, format {str(found)[:20]}; this one reads "
        f"{FORMAT}). Install that version. Nothing was changed."
    )
    return Refused("BACKUP_NEWER", text, 422)


def _manifest(content: dict[str, Any]) -> Manifest:
    files = tuple(File(str(each["name"]), int(each["bytes"]), str(each["sha256"])) for each in content["files"])
    sessions = tuple(
        SavedSession(str(each["id"]), str(each["how"]), bool(each["sealed"])) for each in content["sessions"]
    )
    return Manifest(
        str(content["version"]),
        int(content["created_at"]),
        str(content["cursor"]),
        sessions,
        files,
        str(content.get("auth_key", "")),
    )


def _check_names(manifest: Manifest) -> None:
    names = [file.name for file in manifest.files]
    if len(names) > _MAX_FILES or any(not 0 <= file.bytes <= _MAX_FILE_BYTES for file in manifest.files):
        raise Refused("BACKUP_TOO_LARGE", "The archive claims more files or bytes than a backup has.", 422)
    if len(set(names)) != len(names):
        raise unsafe("The archive names a file twice.")
    for name in names:
        if not _NAME.fullmatch(name):
            raise unsafe(f"The archive names a file {name[:80]!r}.")
    if any(not _DIGEST.fullmatch(file.sha256) for file in manifest.files):
        raise damaged("The manifest has an invalid checksum.")
    saved = {session.file for session in manifest.sessions}
    if saved != {name for name in names if session_of(name)} or STATE not in names:
        raise damaged("The manifest does not match its own list of files.")


def key_fingerprint(settings: Settings) -> str:
    """Return a fingerprint of the AUTH_KEY that workers seal credentials with; empty without one."""
    return _fingerprint(settings.auth_key.get_secret_value())


def known_fingerprints(settings: Settings) -> set[str]:
    """Return the fingerprints of the keys that open credentials here: the present one, and the one before."""
    previous = settings.auth_key_previous
    return {key_fingerprint(settings), _fingerprint(previous.get_secret_value() if previous else "")} - {""}


def _fingerprint(secret: str) -> str:
    return hmac.new(secret.encode(), b"backup", hashlib.sha256).hexdigest()[:16] if secret else ""
