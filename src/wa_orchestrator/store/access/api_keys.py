"""API keys: scopes, reach, expiry and last use. A key is shown once and stored only as its hash."""

import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from redis.exceptions import RedisError

from wa_orchestrator.domain.access.permissions import EVERYTHING, Only, Reach, Scope, reach_of
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: The last use is written once in this time: it is for people, and a write per request is not.
USED_EVERY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key, without the key itself. `expires_at_ms` 0: never; `last_used_at_ms` 0: not yet."""

    id: str
    name: str
    scopes: frozenset[Scope]
    prefix: str
    created_at_ms: int
    reach: Reach = EVERYTHING
    expires_at_ms: int = 0
    last_used_at_ms: int = 0

    def is_expired(self, now_ms: int) -> bool:
        """Whether the key is no longer accepted."""
        return 0 < self.expires_at_ms <= now_ms


def digest(secret: str) -> str:
    """Return the stored hash of a secret. Keys are 256 random bits, so a plain hash cannot be reversed by guessing."""
    return hashlib.sha256(secret.encode()).hexdigest()


async def create(
    scripts: Scripts, name: str, scopes: Iterable[Scope], *, reach: Reach = EVERYTHING, expires_at_ms: int = 0
) -> tuple[ApiKey, str]:
    """Create a key. The second value is the key itself, which cannot be read again."""
    secret = f"wao_{secrets.token_urlsafe(32)}"
    created_at_ms = await scripts.now_ms()
    key = ApiKey(f"k_{secrets.token_hex(6)}", name, frozenset(scopes), secret[:8], created_at_ms, reach, expires_at_ms)
    stored = {
        "name": name,
        "scopes": sorted(key.scopes),
        "prefix": key.prefix,
        "created_at_ms": key.created_at_ms,
        "expires_at_ms": expires_at_ms,
        "digest": digest(secret),
        **encode_reach(reach),
    }
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hset(keys.API_KEYS, key.id, json.dumps(stored))
        pipe.hset(keys.API_KEY_DIGESTS, digest(secret), key.id)
        await pipe.execute()
    return key, secret


async def find(scripts: Scripts, hashed: str) -> ApiKey | None:
    """Return the key with this hash, also one that has expired."""
    key_id = await scripts.redis.hget(keys.API_KEY_DIGESTS, hashed)
    text = await scripts.redis.hget(keys.API_KEYS, key_id) if key_id else None
    return _decode(str(key_id), str(text)) if text else None


async def every(scripts: Scripts) -> list[ApiKey]:
    """Return all keys, the oldest first."""
    stored = await scripts.redis.hgetall(keys.API_KEYS)
    used: Any = await scripts.redis.hgetall(keys.API_KEYS_USED)
    found = (
        replace(_decode(str(key_id), str(text)), last_used_at_ms=int(used.get(key_id, 0)))
        for key_id, text in stored.items()
    )
    return sorted(found, key=lambda key: key.created_at_ms)


async def note_use(scripts: Scripts, key_id: str, now_ms: int) -> None:
    """Record that a key was used, at most once a minute. A Redis that takes no writes must not refuse reads too."""
    with contextlib.suppress(RedisError):
        last = await scripts.redis.hget(keys.API_KEYS_USED, key_id)
        if now_ms - int(last or 0) >= USED_EVERY_MS:
            await scripts.redis.hset(keys.API_KEYS_USED, key_id, str(now_ms))


async def revoke(scripts: Scripts, key_id: str) -> bool:
    """Delete a key; False when there is none."""
    stored = await scripts.redis.hget(keys.API_KEYS, key_id)
    if stored is None:
        return False
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hdel(keys.API_KEYS, key_id)
        pipe.hdel(keys.API_KEY_DIGESTS, json.loads(stored)["digest"])
        pipe.hdel(keys.API_KEYS_USED, key_id)
        await pipe.execute()
    return True


def encode_reach(reach: Reach) -> dict[str, list[str]]:
    """Return a reach as fields of a stored record; `reach_of` reads them."""
    only = reach if isinstance(reach, Only) else Only()
    return {"sessions": sorted(only.sessions), "labels": sorted(only.labels)}


def _decode(key_id: str, text: str) -> ApiKey:
    raw = json.loads(text)
    scopes = frozenset(Scope(each) for each in raw["scopes"] if each in tuple(Scope))  # a newer version may have more
    reach = reach_of(raw.get("sessions", ()), raw.get("labels", ()))
    return ApiKey(key_id, raw["name"], scopes, raw["prefix"], raw["created_at_ms"], reach, raw.get("expires_at_ms", 0))
