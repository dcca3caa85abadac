"""Refuses to start with an AUTH_KEY that opens none of the credentials which are stored in Redis.

`secrets.ensure` does the same for files, before it generates a key. Redis can be asked only later, when a new key may
be on disk: so this is checked at every start, not only at the one that generated it.
"""

from wa_orchestrator.context import Context
from wa_orchestrator.errors import BadSettings
from wa_orchestrator.orchestrator.workers import credential_keys
from wa_orchestrator.server import secrets
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.errors import RedisConnectionError, RedisTimeoutError
from wa_orchestrator.store.sessions import stored_credentials
from wa_orchestrator.store.sessions.stored_credentials import StoredCredentials


async def refuse_lost_key(context: Context) -> None:
    """Raise BadSettings if credentials are stored and no key opens any of them. One that opens is enough.

    Does nothing while Redis cannot be reached: services may start before it.
    """
    settings = context.settings
    if settings.credentials != "server":
        return
    try:
        sealed = await _none_opens(context)
    except (RedisConnectionError, RedisTimeoutError):
        return
    if sealed:
        raise BadSettings(
            f"AUTH_KEY: the credentials in Redis (sessions: {sealed}) are sealed with a key that is neither set nor in "
            f"{settings.data_dir / secrets.FILE_NAME}. Restore that file or set AUTH_KEY; no other key can read them. "
            "Example: AUTH_KEY_FILE=/run/secrets/auth_key"
        )


async def _none_opens(context: Context) -> int:
    """Return how many sessions have stored credentials if no key opens any; 0 otherwise."""
    sealed = 0
    for session in await records.sessions(context.scripts):
        stored = await stored_credentials.read(context.scripts, session.id)
        if stored is None:
            continue
        if _opens(context.settings, session.id, stored):
            return 0
        sealed += 1
    return sealed


def _opens(settings: Settings, session_id: str, stored: StoredCredentials) -> bool:
    name = f"copy/{stored.epoch}/{stored.first}"
    roots = (settings.auth_key, settings.auth_key_previous)
    return any(
        credential_keys.opens(root, session_id, name, stored.copy)
        for root in roots
        if root is not None and root.get_secret_value()
    )
