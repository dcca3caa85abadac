"""Authenticates requests by API key and checks scopes."""

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access import permissions
from wa_orchestrator.domain.access.permissions import EVERYTHING, AccessVerdict, Everything, Reach, RouteSpan, Scope
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.store.access.api_keys import digest
from wa_orchestrator.web.connections import client_of
from wa_orchestrator.web.keyed_route import before_body

#: How long a look-up is cached: a revocation in another process takes effect within this time.
CACHE_S = 2.0
_MAX_CACHED = 10_000
_KEY_HEADERS = (b"x-api-key", b"authorization")
CONFIGURED = "configured"
"""The id of the key from the settings."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The key behind a request; for a person, `key_id` is `person:<id>`, or `dashboard:<name>` without an account."""

    key_id: str
    scopes: frozenset[Scope]
    reach: Reach = EVERYTHING
    name: str = ""
    """What people call the key or the person."""

    @property
    def is_limited(self) -> bool:
        """Whether the caller reaches some sessions only."""
        return not isinstance(self.reach, Everything)

    def decide(self, scope: Scope, span: RouteSpan) -> AccessVerdict:
        """Decide whether this caller may use a route."""
        return permissions.decide(self.scopes, self.reach, scope, span)


async def revoke_key(context: Context, key_id: str) -> bool:
    """Revoke a key; False when there is none. Other processes accept it for up to `CACHE_S` longer."""
    revoked = await api_keys.revoke(context.scripts, key_id)
    context.key_cache.clear()
    return revoked


async def look_up(context: Context, secret: str) -> Caller | None:
    """Return the caller with this key, or None. Only hashes are compared."""
    hashed, now = digest(secret), time.monotonic()
    valid_until, known = context.key_cache.get(hashed, (0.0, None))
    if valid_until > now:
        return known
    if hmac.compare_digest(hashed, digest(context.settings.api_key.get_secret_value())):
        caller: Caller | None = Caller(CONFIGURED, frozenset({Scope.ADMIN}))
    else:
        caller = await _stored_caller(context, hashed)
    if len(context.key_cache) >= _MAX_CACHED:
        context.key_cache.clear()
    context.key_cache[hashed] = (now + CACHE_S, caller)
    return caller


async def _stored_caller(context: Context, hashed: str) -> Caller | None:
    key = await api_keys.find(context.scripts, hashed)
    if key is None:
        return None
    now_ms = await context.scripts.now_ms()
    if key.is_expired(now_ms):
        return None
    await api_keys.note_use(context.scripts, key.id, now_ms)
    return Caller(key.id, key.scopes, key.reach, key.name)


def cached_caller(context: Context, headers: Mapping[bytes, bytes], scope: Scope) -> Caller | None:
    """Return the caller if its key was looked up within `CACHE_S` and has the scope. Never waits.

    For routes that respect the caller's reach.
    """
    valid_until, caller = context.key_cache.get(digest(key_in(headers) or ""), (0.0, None))
    if caller is None or valid_until <= time.monotonic():
        return None
    return caller if caller.decide(scope, RouteSpan.SESSIONS) is AccessVerdict.ALLOWED else None


def key_in(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the key that a request carries, as `X-API-Key` or as a bearer token. Header names are lower case."""
    if key := headers.get(b"x-api-key"):
        return key.decode("latin-1")
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip().decode("latin-1") or None if scheme.lower() == b"bearer" else None


def _are_two(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request has one key as `X-API-Key` and another as a bearer token."""
    keys = [key_in({name: headers[name]}) for name in _KEY_HEADERS if name in headers]
    return len({key for key in keys if key}) > 1


async def authenticate(context: Context, request: Request, scope: Scope, span: RouteSpan = RouteSpan.FLEET) -> Caller:
    """Return the caller; raise `Refused` with 401 without a valid key, with 403 if this route is closed to it."""
    headers = request.scope["headers"]
    # A proxy in front of this server may have checked the other one.
    if any(sum(name == each for name, _ in headers) > 1 for each in _KEY_HEADERS) or _are_two(dict(headers)):
        raise Refused("API_KEY_AMBIGUOUS", "The request has two API keys. Send one.", 401)
    secret = key_in(dict(headers))
    if secret is not None:
        caller = await look_up(context, secret)
        if caller is None:
            count_stranger(context, request)
            raise Refused(
                "API_KEY_UNKNOWN", "This API key does not exist, has expired or was revoked. Use another one.", 401
            )
    else:
        caller = await context.recognize(request) if context.recognize else None
    if caller is None:
        count_stranger(context, request)
        raise Refused("API_KEY_MISSING", "Send an API key in the header X-API-Key, or as a bearer token.", 401)
    match caller.decide(scope, span):
        case AccessVerdict.SCOPE_MISSING:
            text = f"This API key lacks the scope `{scope}`. Use a key that has it."
            raise Refused("SCOPE_MISSING", text, 403, needed=str(scope))
        case AccessVerdict.LIMITED:
            text = "This API key is limited to some sessions; this is about all of them. Use a key without that limit."
            raise Refused("KEY_LIMITED", text, 403)
        case AccessVerdict.ALLOWED:
            return caller


def count_stranger(context: Context, request: Request) -> None:
    """Count a request without valid credentials against its address."""
    client = client_of(request.client.host) if request.client else ""
    context.rates.require(f"stranger {client}", context.settings.public_rate_per_minute)


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


_header = APIKeyHeader(name="X-API-Key", auto_error=False, description="An API key (`wao_…`).")
_bearer = HTTPBearer(auto_error=False, description="The same key as a bearer token.")


def requires(scope: Scope, span: RouteSpan = RouteSpan.FLEET) -> Callable[..., Awaitable[Caller]]:
    """Make the dependency that returns the caller of a route and refuses requests without `scope`.

    Callers that are limited to some sessions are refused too, unless the route says that it respects their reach.
    """

    async def admit(request: Request) -> Caller:
        """Authenticate a request and count it against the rate of its key. A person's clicks were counted before."""
        context = context_of(request)
        caller = await authenticate(context, request, scope, span)
        if not caller.key_id.startswith(("dashboard:", "person:")):
            context.rates.require(f"key {caller.key_id}", context.settings.api_rate_per_minute)
        request.state.caller = caller
        return caller

    async def dependency(
        request: Request, _key: object = Security(_header), _token: object = Security(_bearer)
    ) -> Caller:
        caller: Caller | None = getattr(request.state, "caller", None)
        return caller or await admit(request)

    return before_body(admit, dependency)


#: Parameters of routes: `caller: AdminCaller` checks the scope and gives the caller. Closed to limited callers.
ReadCaller = Annotated[Caller, Depends(requires(Scope.READ))]
OperateCaller = Annotated[Caller, Depends(requires(Scope.OPERATE))]
AdminCaller = Annotated[Caller, Depends(requires(Scope.ADMIN))]
#: Open to limited callers too: the handler must show and change only what `caller.reach` includes.
LimitedSender = Annotated[Caller, Depends(requires(Scope.SEND, RouteSpan.SESSIONS))]
LimitedReader = Annotated[Caller, Depends(requires(Scope.READ, RouteSpan.SESSIONS))]
LimitedOperator = Annotated[Caller, Depends(requires(Scope.OPERATE, RouteSpan.SESSIONS))]
