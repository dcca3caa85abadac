"""One-time links by which somebody elsewhere links one session. Only a digest of the secret is stored."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain.sessions import scan_link
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.outcomes import Unknown
from wa_orchestrator.store.record_codec import decode


@dataclass(frozen=True, slots=True, repr=False)
class ScanLink:
    """A link. `asker` is whom the page names; `language` '' is the visitor's own."""

    digest: str
    asker: str
    language: str
    made_at: int
    expires_at: int
    started_at: int
    tries: int


@dataclass(frozen=True, slots=True)
class Started:
    """The link was pressed so often."""

    tries: int


@dataclass(frozen=True, slots=True)
class Spent:
    """It was pressed too often."""


async def make(scripts: Scripts, session_id: str, *, asker: str, language: str, life_ms: int) -> tuple[str, ScanLink]:
    """Make a session's link, in place of one before; return its token, which is not stored, and the link."""
    secret, now_ms = secrets.token_urlsafe(24), await scripts.now_ms()
    made = ScanLink(_digest(secret), asker, language, now_ms, now_ms + life_ms, 0, 0)
    fields: dict[Any, Any] = {"digest": made.digest, "asker": asker, "language": language}
    fields |= {"made_at": made.made_at, "expires_at": made.expires_at}
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.delete(keys.scan_link(session_id))
        pipe.hset(keys.scan_link(session_id), mapping=fields)
        pipe.pexpire(keys.scan_link(session_id), life_ms)
        await pipe.execute()
    return f"{session_id}.{secret}", made


async def find(scripts: Scripts, token: str) -> tuple[str, ScanLink] | None:
    """Return the session and the link of a token; None if it is wrong, expired or withdrawn."""
    session_id, _, secret = token.rpartition(".")
    raw: Any = await scripts.redis.hgetall(keys.scan_link(session_id)) if session_id else {}
    link = decode(ScanLink, raw)
    if not raw or not hmac.compare_digest(link.digest, _digest(secret)):
        return None
    return session_id, link


async def start(scripts: Scripts, session_id: str, link: ScanLink) -> Started | Spent | Unknown:
    """Count that the person asked for a code; the first time begins the window in which codes are shown."""
    return await _press(scripts, session_id, link, "tries", scan_link.MOST_TRIES)


async def count_pairing_code(scripts: Scripts, session_id: str, link: ScanLink) -> Started | Spent | Unknown:
    """Count that the person asked for a pairing code in place of the QR code."""
    return await _press(scripts, session_id, link, "pairing_codes", scan_link.MOST_PAIRING_CODES)


async def _press(
    scripts: Scripts, session_id: str, link: ScanLink, counted: str, most: int
) -> Started | Spent | Unknown:
    args: list[Argument] = [link.digest, scan_link.WINDOW_MS, most, counted]
    return await scripts.ask(
        "start_scan_link", [keys.scan_link(session_id)], args, started=Started, spent=Spent, unknown=Unknown
    )


async def withdraw(scripts: Scripts, session_id: str) -> bool:
    """Delete a session's link. Return whether there was one."""
    return bool(await scripts.redis.delete(keys.scan_link(session_id)))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
