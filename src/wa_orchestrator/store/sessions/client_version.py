"""The client version that WhatsApp accepted last, shared by all sessions, and the trial after a refusal."""

from typing import Any

from wa_orchestrator.domain.sessions.version_recovery import AcceptedLogin, Trial
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


async def record_login(scripts: Scripts, session: str, revision: int) -> None:
    """Record that WhatsApp let a session in. The newest revision of all logins is kept beside the last one's."""
    await scripts.run("record_login", [keys.CLIENT_VERSION], [session, revision])


async def note_expiry(scripts: Scripts, expires_at_ms: int, details: str) -> bool:
    """Note when WhatsApp will refuse a version (0 = it will not); whether that is news."""
    names, at = [keys.CLIENT_VERSION, keys.EVENTS], expires_at_ms or ""
    return await scripts.whether("note_client_expiry", names, [at, details], noted=True, withdrawn=True, known=False)


async def put_trial(scripts: Scripts, session: str, at_ms: int) -> None:
    await scripts.redis.hset(keys.CLIENT_VERSION, mapping={"trial_session": session, "trial_at": at_ms})


async def read(scripts: Scripts) -> tuple[AcceptedLogin, Trial]:
    raw: Any = await scripts.redis.hgetall(keys.CLIENT_VERSION)
    login = AcceptedLogin(raw.get("login_session", ""), int(raw.get("login_at", 0)), int(raw.get("login_revision", 0)))
    return login, Trial(raw.get("trial_session", ""), int(raw.get("trial_at", 0)))


async def expires_at(scripts: Scripts) -> int:
    """Return from when on WhatsApp has announced to refuse the present version; 0 if it has not."""
    return int(await scripts.redis.hget(keys.CLIENT_VERSION, "expires_at") or 0)


async def newest_revision(scripts: Scripts) -> int:
    """Return the newest revision that WhatsApp accepted from any session; 0 when none is known."""
    return int(await scripts.redis.hget(keys.CLIENT_VERSION, "newest") or 0)
