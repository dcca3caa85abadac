"""Rotation of generated secrets: a new one takes over, and the one before is still accepted where it must be."""

from datetime import UTC, datetime

from pydantic import SecretStr

from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers import credential_keys
from wa_orchestrator.server import secrets
from wa_orchestrator.settings import PREVIOUS, Settings


def rotate(settings: Settings, name: str, now: datetime | None = None) -> None:
    """Replace a secret that this installation generated; the server uses the new one from its next start on.

    Raises `Refused` for one that the operator has set, and for AUTH_KEY while credentials need the one before.
    `settings` are those in effect, without the stored secrets.
    """
    variable = name.upper()
    stored = secrets.stored_secrets(settings.data_dir)
    if getattr(settings, name).get_secret_value() or name not in stored:
        text = f"{variable} is not one of the generated secrets of {settings.data_dir}. Change it where you set it"
        also = f", and set {variable}_PREVIOUS to the old value." if name in PREVIOUS else "."
        raise Refused("NOT_GENERATED", text + also)
    if name == "auth_key" and (waiting := unsealed_with(settings, SecretStr(stored[name]))):
        text = f"These credentials are not sealed with the present AUTH_KEY yet: {', '.join(waiting[:5])}"
        more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
        raise Refused(
            "STILL_SEALED_BEFORE", f"{text}{more}. Start those sessions once, or empty the trash; then rotate."
        )
    complete = {**stored, name: secrets.generate(name)}
    if name in PREVIOUS:
        complete[f"{name}_previous"] = stored[name]
        complete[f"{name}_rotated_at"] = (now or datetime.now(tz=UTC)).isoformat()
    secrets.replace(settings.data_dir, complete)


def unsealed_with(settings: Settings, root: SecretStr) -> list[str]:
    """Return the sessions whose sealed credentials need another key than the one of `root`."""
    seals = credential_files.seals(settings)
    return sorted({each for each, key in seals if key != credential_keys.key_id(credential_keys.derive(root, each))})
