"""Generated secrets: created at the first start and stored in the data directory, readable by the owner only."""

import base64
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_bytes, token_hex, token_urlsafe

from pydantic import SecretStr

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.settings import GENERATED, PREVIOUS, Settings

FILE_NAME = "secrets.json"
_GENERATORS: Mapping[str, Callable[[], str]] = {
    "api_key": lambda: f"wao_{token_urlsafe(32)}",
    "webhook_secret": lambda: "whsec_" + base64.b64encode(token_bytes(32)).decode(),
    "auth_key": lambda: base64.b64encode(token_bytes(32)).decode(),
    "dashboard_password": lambda: token_urlsafe(18),
}
#: How long workers that were started before a rotation are accepted; the watchdog replaces one that still runs then.
PREVIOUS_WORKERS_FOR = timedelta(days=7)


def ensure(settings: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Generate the secrets that were not set. Returns the complete settings and the names of the new secrets.

    When it returns, every new secret is on disk. Two processes that start at once get the same secrets.
    """
    missing = _missing(settings)
    if not missing:
        return settings, ()
    stored = stored_secrets(settings.data_dir)
    new = [name for name in missing if name not in stored]
    if "auth_key" in new and _has_sealed_credentials(settings):
        raise BadSettings(
            f"AUTH_KEY: the credentials in {settings.sessions_dir} are sealed with a key that is neither set nor in "
            f"{settings.data_dir / FILE_NAME}. Restore that file or set AUTH_KEY; no other key can read them. "
            "Example: AUTH_KEY_FILE=/run/secrets/auth_key"
        )
    if new:
        stored = _store(settings.data_dir, stored, new)
    return _filled(settings, stored), tuple(new)


def _has_sealed_credentials(settings: Settings) -> bool:
    from wa_orchestrator.orchestrator.sessions import credential_files  # not needed by commands

    return bool(credential_files.seals(settings))


def with_stored(settings: Settings) -> Settings:
    """Return the settings with the secrets that an earlier start has generated."""
    return _filled(settings, stored_secrets(settings.data_dir))


def stored_secrets(data_dir: Path) -> dict[str, str]:
    """Return the generated secrets; empty in a fresh installation. Raises BadSettings when the file is damaged."""
    path = data_dir / FILE_NAME
    try:
        content = json.loads(path.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
        known = (*GENERATED, *(f"{name}_{field}" for name in PREVIOUS for field in ("previous", "rotated_at")))
        return {name: str(content[name]) for name in known if content.get(name)}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not valid JSON"
        raise BadSettings(
            f"DATA_DIR: cannot read {path} ({why}). Restore a copy, or remove it to have new secrets generated. "
            "Example: DATA_DIR=/var/lib/wa-orchestrator"
        ) from error


def _missing(settings: Settings) -> list[str]:
    return [name for name in GENERATED if not getattr(settings, name).get_secret_value()]


def _filled(settings: Settings, stored: Mapping[str, str]) -> Settings:
    filled = {name: SecretStr(stored[name]) for name in _missing(settings) if name in stored}
    for name in filled.keys() & set(PREVIOUS):
        before = f"{name}_previous"
        if getattr(settings, before) is None and before in stored and not _is_over(name, stored):
            filled[before] = SecretStr(stored[before])
    return settings.model_copy(update=filled)


def _is_over(name: str, stored: Mapping[str, str]) -> bool:
    """Whether the value before a rotation is accepted no more. Credentials need theirs until they are sealed anew."""
    if name != "webhook_secret":
        return False
    try:
        rotated_at = datetime.fromisoformat(stored.get(f"{name}_rotated_at", ""))
    except ValueError:
        return True
    return datetime.now(tz=UTC) - rotated_at > PREVIOUS_WORKERS_FOR


def generate(name: str) -> str:
    return _GENERATORS[name]()


def replace(data_dir: Path, complete: Mapping[str, str]) -> None:
    """Replace the stored secrets; after a crash there are either the old ones or the new ones."""
    with _writable(data_dir) as path, _written(path, json.dumps(complete, indent=2) + "\n") as draft:
        draft.replace(path)


def _store(data_dir: Path, stored: Mapping[str, str], new: list[str]) -> dict[str, str]:
    complete = dict(stored) | {name: generate(name) for name in new}
    if stored:
        replace(data_dir, complete)
        return complete
    try:
        with _writable(data_dir) as path, _written(path, json.dumps(complete, indent=2) + "\n") as draft:
            path.hardlink_to(draft)  # fails when another process was first; then its secrets are used
    except FileExistsError:
        return stored_secrets(data_dir)
    return complete


@contextlib.contextmanager
def _writable(data_dir: Path) -> Iterator[Path]:
    """Yield the path of the file; an error of the disk names the setting."""
    path = data_dir / FILE_NAME
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield path
    except FileExistsError:
        raise
    except OSError as error:
        raise BadSettings(
            f"DATA_DIR: cannot write {path} ({error.strerror}). Example: DATA_DIR=/var/lib/wa-orchestrator"
        ) from error


@contextlib.contextmanager
def _written(path: Path, text: str) -> Iterator[Path]:
    """Yield a temporary file beside `path`, synced to disk and readable by the owner only; it is removed afterwards."""
    draft = path.with_name(f"{path.name}.{token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        draft.unlink(missing_ok=True)
