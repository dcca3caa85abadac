"""Who calls: API keys with scopes. A key is shown once and stored only as its hash."""

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.store import keys

#: How long a look-up is believed: another process' revocation takes effect within this time.
CACHE_S = 2.0
_MOST_CACHED = 10_000
CONFIGURED = "configured"
"""The id of the key from the settings."""


class Scope(StrEnum):
    """What a key may do. `admin` includes the others."""

    SEND = "send"
    """Send messages, and see what became of them."""
    READ = "read"
    """See sessions, proxies, messages, events. Never a QR or a secret."""
    ADMIN = "admin"
    """Everything."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is behind a request. `key_id` also names a person who came by cookie (`dashboard`)."""

    key_id: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Say whether this caller has a scope, by itself or as an administrator."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is stored of a key."""

    id: str
    name: str
    scopes: frozenset[Scope]
    prefix: str
    created_at_ms: int


def digest(secret: str) -> str:
    """Give what is stored of a secret. Keys are 256 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()


async def create_key(context: Context, name: str, scopes: Iterable[Scope]) -> tuple[KeyRecord, str]:
    """Make a key. The second value is the key itself, which nobody can read again."""
    secret = f"wao_{secrets.token_urlsafe(32)}"
    record = KeyRecord(f"k_{secrets.token_hex(6)}", name, frozenset(scopes), secret[:8], await context.scripts.now_ms())
    stored = {
        "name": name,
        "scopes": sorted(record.scopes),
        "prefix": record.prefix,
        "created_at_ms": record.created_at_ms,
        "digest": digest(secret),
    }
    async with context.redis.pipeline(transaction=True) as pipe:
        pipe.hset(keys.API_KEYS, record.id, json.dumps(stored))
        pipe.hset(keys.API_KEY_DIGESTS, digest(secret), record.id)
        await pipe.execute()
    return record, secret


async def list_keys(context: Context) -> list[KeyRecord]:
    """Give all keys, the oldest first."""
    stored = await context.redis.hgetall(keys.API_KEYS)
    return sorted(
        (_record(str(key_id), str(text)) for key_id, text in stored.items()), key=lambda record: record.created_at_ms
    )


async def revoke_key(context: Context, key_id: str) -> bool:
    """Take a key back; False when there is none. Other processes stop believing it within `CACHE_S`."""
    stored = await context.redis.hget(keys.API_KEYS, key_id)
    if stored is None:
        return False
    async with context.redis.pipeline(transaction=True) as pipe:
        pipe.hdel(keys.API_KEYS, key_id)
        pipe.hdel(keys.API_KEY_DIGESTS, json.loads(stored)["digest"])
        await pipe.execute()
    context.key_cache.clear()
    return True


def _record(key_id: str, text: str) -> KeyRecord:
    raw = json.loads(text)
    return KeyRecord(key_id, raw["name"], frozenset(map(Scope, raw["scopes"])), raw["prefix"], raw["created_at_ms"])


async def look_up(context: Context, secret: str) -> Caller | None:
    """Say whose key this is, or None. Only hashes are compared."""
    hashed = digest(secret)
    now = time.monotonic()
    cached = context.key_cache.get(hashed)
    if cached is not None and cached[0] > now:
        return cached[1]
    is_configured = hmac.compare_digest(hashed, digest(context.settings.api_key.get_secret_value()))
    caller = Caller(CONFIGURED, frozenset({Scope.ADMIN})) if is_configured else await _stored(context, hashed)
    if len(context.key_cache) >= _MOST_CACHED:
        context.key_cache.clear()
    context.key_cache[hashed] = (now + CACHE_S, caller)
    return caller


def remembered(context: Context, secret: str) -> Caller | None:
    """Say whose key this is if that was looked up a moment ago."""
    cached = context.key_cache.get(digest(secret))
    return cached[1] if cached is not None and cached[0] > time.monotonic() else None


async def _stored(context: Context, hashed: str) -> Caller | None:
    key_id = await context.redis.hget(keys.API_KEY_DIGESTS, hashed)
    text = await context.redis.hget(keys.API_KEYS, key_id) if key_id else None
    return Caller(str(key_id), _record(str(key_id), str(text)).scopes) if text else None


def key_in(request: Request) -> str | None:
    """Give the key that a request carries, as `X-API-Key` or as a bearer token."""
    if key := request.headers.get("x-api-key"):
        return key
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


async def authenticate(context: Context, request: Request, scope: Scope) -> Caller:
    """Say who calls; raise `Refused` (401, 403) for nobody, or for somebody who may not."""
    secret = key_in(request)
    if secret is not None:
        caller = await look_up(context, secret)
        if caller is None:
            raise Refused("API_KEY_UNKNOWN", "This API key does not exist or was revoked. Use another one.", 401)
    else:
        caller = await context.recognize(request) if context.recognize else None
    if caller is None:
        raise Refused("API_KEY_MISSING", "Send an API key in the header X-API-Key, or as a bearer token.", 401)
    if not caller.may(scope):
        raise Refused(
            "SCOPE_MISSING", f"This needs the scope `{scope}`. Make a key that has it.", 403, needed=str(scope)
        )
    return caller


def context_of(request: Request) -> Context:
    """Give the context of the app that serves this request."""
    context: Context = request.app.state.context
    return context


_header = APIKeyHeader(name="X-API-Key", auto_error=False, description="An API key (`wao_…`).")
_bearer = HTTPBearer(auto_error=False, description="The same key as a bearer token.")


def requires(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """Make the dependency that gives the caller of a route and refuses whoever lacks `scope`."""

    async def dependency(
        request: Request, _key: object = Security(_header), _token: object = Security(_bearer)
    ) -> Caller:
        caller = await authenticate(context_of(request), request, scope)
        request.state.caller = caller
        return caller

    return dependency
