"""API keys and their scopes. A key is shown once and stored only as its hash."""

import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


class Scope(StrEnum):
    """What a key may do. `admin` includes the others."""

    SEND = "send"
    """Send messages and read their status."""
    READ = "read"
    """Read sessions, proxies, messages and events, but never a QR code or a secret."""
    ADMIN = "admin"
    """Everything."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key, without the key itself."""

    id: str
    name: str
    scopes: frozenset[Scope]
    prefix: str
    created_at_ms: int


def digest(secret: str) -> str:
    """Return the stored hash of a secret. Keys are 256 random bits, so a plain hash cannot be reversed by guessing."""
    return hashlib.sha256(secret.encode()).hexdigest()


async def create(scripts: Scripts, name: str, scopes: Iterable[Scope]) -> tuple[ApiKey, str]:
    """Create a key. The second value is the key itself, which cannot be read again."""
    secret = f"wao_{secrets.token_urlsafe(32)}"
    key = ApiKey(f"k_{secrets.token_hex(6)}", name, frozenset(scopes), secret[:8], await scripts.now_ms())
    stored = {
        "name": name,
        "scopes": sorted(key.scopes),
        "prefix": key.prefix,
        "created_at_ms": key.created_at_ms,
        "digest": digest(secret),
    }
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hset(keys.API_KEYS, key.id, json.dumps(stored))
        pipe.hset(keys.API_KEY_DIGESTS, digest(secret), key.id)
        await pipe.execute()
    return key, secret


async def find(scripts: Scripts, hashed: str) -> ApiKey | None:
    key_id = await scripts.redis.hget(keys.API_KEY_DIGESTS, hashed)
    text = await scripts.redis.hget(keys.API_KEYS, key_id) if key_id else None
    return _decode(str(key_id), str(text)) if text else None


async def every(scripts: Scripts) -> list[ApiKey]:
    """Return all keys, the oldest first."""
    stored = await scripts.redis.hgetall(keys.API_KEYS)
    found = (_decode(str(key_id), str(text)) for key_id, text in stored.items())
    return sorted(found, key=lambda key: key.created_at_ms)


async def revoke(scripts: Scripts, key_id: str) -> bool:
    """Delete a key; False when there is none."""
    stored = await scripts.redis.hget(keys.API_KEYS, key_id)
    if stored is None:
        return False
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hdel(keys.API_KEYS, key_id)
        pipe.hdel(keys.API_KEY_DIGESTS, json.loads(stored)["digest"])
        await pipe.execute()
    return True


def _decode(key_id: str, text: str) -> ApiKey:
    raw = json.loads(text)
    return ApiKey(key_id, raw["name"], frozenset(map(Scope, raw["scopes"])), raw["prefix"], raw["created_at_ms"])
