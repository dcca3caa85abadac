"""Rotation of generated secrets: a new one takes over, and the one before is still accepted where it must be."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import SecretStr

from wa_orchestrator import context as contexts
from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers import credential_keys
from wa_orchestrator.server import secrets
from wa_orchestrator.settings import PREVIOUS, Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine import embedded_redis
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.store.sessions import stored_credentials
from wa_orchestrator.store.sessions.stored_credentials import StoredCredentials


def rotate(settings: Settings, name: str, now: datetime | None = None, *, stored_before: Sequence[str] = ()) -> None:
    """Replace a secret that this installation generated; the server uses the new one from its next start on.

    Raises `Refused` for one that the operator has set, and for AUTH_KEY while credentials need the one before.
    `settings` are those in effect, without the stored secrets; `stored_before` is what `stored_unsealed_with` returned.
    """
    variable = name.upper()
    stored = secrets.stored_secrets(settings.data_dir)
    if getattr(settings, name).get_secret_value() or name not in stored:
        text = f"{variable} is not one of the generated secrets of {settings.data_dir}. Change it where you set it"
        also = f", and set {variable}_PREVIOUS to the old value." if name in PREVIOUS else "."
        raise Refused("NOT_GENERATED", text + also)
    waiting = sorted({*unsealed_with(settings, SecretStr(stored[name])), *stored_before}) if name == "auth_key" else []
    if waiting:
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
    in_files = {each for each, key in seals if key != credential_keys.key_id(credential_keys.derive(root, each))}
    copies = credential_files.trashed_copies(settings)
    return sorted(in_files | {each for each, copy in copies if not _opens(root, each, stored_credentials.unpack(copy))})


async def stored_unsealed_with(settings: Settings) -> list[str]:
    """Return the sessions whose copy in Redis, with CREDENTIALS=server, needs another key than the present AUTH_KEY.

    A worker that starts seals its copy anew. Raises `Unavailable` if Redis cannot be asked.
    """
    if settings.credentials != "server":
        return []
    own = settings.redis_url.get_secret_value() if settings.redis_url else embedded_redis.url_in(settings.data_dir)
    root = secrets.with_stored(settings).auth_key
    async with contexts.opened(settings, own) as context:
        try:
            return [each.id for each in await records.sessions(context.scripts) if await _needs(context, each.id, root)]
        except (RedisError, OSError) as error:
            text = f"Cannot read the stored credentials ({error}). Is the server running?"
            raise Unavailable("REDIS_UNREACHABLE", text) from error


async def _needs(context: Context, session_id: str, root: SecretStr) -> bool:
    """Whether a session's stored copy needs another key. What came after the copy was sealed by the same worker."""
    found = await stored_credentials.read(context.scripts, session_id)
    return found is not None and not _opens(root, session_id, found)


def _opens(root: SecretStr, session_id: str, stored: StoredCredentials) -> bool:
    return credential_keys.opens(root, session_id, f"copy/{stored.epoch}/{stored.first}", stored.copy)
