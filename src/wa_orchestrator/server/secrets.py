"""Secrets that nobody gave: made at the first start and kept in the data directory, for its owner's eyes only."""

import base64
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from secrets import token_bytes, token_hex, token_urlsafe

from pydantic import SecretStr

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.settings import GENERATED, Settings

FILE_NAME = "secrets.json"
_MAKERS: Mapping[str, Callable[[], str]] = {
    "api_key": lambda: f"wao_{token_urlsafe(32)}",
    "webhook_secret": lambda: "whsec_" + base64.b64encode(token_bytes(32)).decode(),
    "dashboard_password": lambda: token_urlsafe(18),
}


def ensure(settings: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Fill in the secrets that were not given. Gives the complete settings and the names of those made just now.

    When it returns, every new secret is on disk. Two processes that start at once get the same secrets.
    """
    missing = _missing(settings)
    if not missing:
        return settings, ()
    stored = stored_secrets(settings.data_dir)
    lacking = [name for name in missing if name not in stored]
    if lacking:
        stored = _store(settings.data_dir, stored, lacking)
    return _filled(settings, stored), tuple(lacking)


def known(settings: Settings) -> Settings:
    """Fill in what an earlier start has made, and make nothing."""
    return _filled(settings, stored_secrets(settings.data_dir))


def stored_secrets(data_dir: Path) -> dict[str, str]:
    """Read the generated secrets; none is a fresh installation. Raises BadSettings when the file is damaged."""
    path = data_dir / FILE_NAME
    try:
        content = json.loads(path.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return {name: str(content[name]) for name in GENERATED if content.get(name)}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is damaged"
        raise BadSettings(
            f"DATA_DIR: cannot read {path} ({why}). Put back a copy, or remove it to have new secrets made. "
            "Example: DATA_DIR=/var/lib/wa-orchestrator"
        ) from error


def _missing(settings: Settings) -> list[str]:
    return [name for name in GENERATED if not getattr(settings, name).get_secret_value()]


def _filled(settings: Settings, stored: Mapping[str, str]) -> Settings:
    return settings.model_copy(update={name: SecretStr(stored[name]) for name in _missing(settings) if name in stored})


def _store(data_dir: Path, stored: Mapping[str, str], lacking: list[str]) -> dict[str, str]:
    path = data_dir / FILE_NAME
    complete = dict(stored) | {name: _MAKERS[name]() for name in lacking}
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _written(path, json.dumps(complete, indent=2) + "\n") as draft:
            if stored:
                draft.replace(path)
            else:
                path.hardlink_to(draft)  # fails when another process was first: its secrets count
    except FileExistsError:
        return stored_secrets(data_dir)
    except OSError as error:
        raise BadSettings(
            f"DATA_DIR: cannot write {path} ({error.strerror}). Example: DATA_DIR=/var/lib/wa-orchestrator"
        ) from error
    return complete


@contextlib.contextmanager
def _written(path: Path, text: str) -> Iterator[Path]:
    """Write a draft beside `path` that only its owner can read and that is on disk; it is gone afterwards."""
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
