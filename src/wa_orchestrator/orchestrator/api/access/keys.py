"""Routes of API keys. A key is limited by its scopes, to some sessions if it names any, and by its expiry."""

from typing import Annotated, Literal

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access import permissions
from wa_orchestrator.domain.access.permissions import Scope
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.store.access.api_keys import ApiKey
from wa_orchestrator.web import auth
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.ids import KeyId
from wa_orchestrator.web.models import LabelNames, OptionalTimestamp, RequestModel, ResponseModel, SessionNames
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_DAY_MS = 86_400_000


class KeyBody(RequestModel):
    """A key to create. With sessions or labels it is limited to those sessions: to it, the others do not exist."""

    name: str = Field(min_length=1, max_length=100, examples=["CRM"])
    scopes: list[Scope] = Field(min_length=1, max_length=4, examples=[["send", "read"]])
    sessions: SessionNames = Field([], description="The sessions that it is limited to.")
    labels: LabelNames = Field(
        [], description="Labels or tags of sessions that it is limited to, also of those made later."
    )
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = Field(None, description="Default: never.")


class ApiKeyView(ResponseModel):
    """An API key, without the key itself."""

    id: str = Field(examples=["k_1a2b3c4d5e6f"])
    name: str
    scopes: list[Scope]
    sessions: list[str] = Field(description="The sessions that it is limited to.")
    labels: list[str] = Field(description="The labels that it is limited to. Without sessions and labels: no limit.")
    prefix: str = Field(description="How the key begins.", examples=["wao_Ab3d"])
    created_at: OptionalTimestamp
    expires_at: OptionalTimestamp = Field(description="Null: it does not expire.")
    last_used_at: OptionalTimestamp = Field(description="To the minute. Null: not yet.")


class ApiKeysResponse(ResponseModel):
    """All keys but the one of the settings, the oldest first."""

    keys: list[ApiKeyView]


class CreatedApiKey(ApiKeyView):
    """The new key."""

    key: str = Field(description="The key itself. It cannot be shown again.")


class RevokedApiKey(ResponseModel):
    """The key is no longer accepted."""

    id: str
    revoked: Literal[True] = True


def _view(key: ApiKey) -> ApiKeyView:
    return ApiKeyView.of(
        key,
        scopes=sorted(key.scopes),
        created_at=key.created_at_ms,
        expires_at=key.expires_at_ms,
        last_used_at=key.last_used_at_ms,
        **api_keys.encode_reach(key.reach),
    )


class KeyRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/keys", "administration")
        self.get("")(self.list_api_keys)
        self.post("", status_code=201, responses=responses(LIMITED_ADMIN=422))(self.create_api_key)
        self.delete("/{key_id}", responses=responses(NO_SUCH_KEY=404))(self.revoke_api_key)

    async def list_api_keys(self, _caller: AdminCaller) -> ApiKeysResponse:
        """List API keys, without the keys themselves."""
        return ApiKeysResponse(keys=[_view(key) for key in await api_keys.every(self._scripts)])

    async def create_api_key(self, body: KeyBody, caller: AdminCaller) -> CreatedApiKey:
        """Create an API key. The response is the only place that shows it."""
        reach = permissions.reach_of(body.sessions, body.labels)
        if not permissions.is_grantable(body.scopes, reach):
            text = "A key with the scope `admin` cannot be limited to sessions. Leave out `admin`, or the limit."
            raise Refused("LIMITED_ADMIN", text, 422)
        days = body.expires_in_days
        expires_at_ms = 0 if days is None else await self._scripts.now_ms() + days * _DAY_MS
        key, secret = await api_keys.create(
            self._scripts, body.name, body.scopes, reach=reach, expires_at_ms=expires_at_ms
        )
        limits = {"sessions": body.sessions, "labels": body.labels, "expires_in_days": days}
        await self._audit(caller, "key.make", key.id, name=body.name, scopes=body.scopes, **limits)
        return CreatedApiKey.of(_view(key), key=secret)

    async def revoke_api_key(self, key_id: KeyId, caller: AdminCaller) -> RevokedApiKey:
        """Revoke an API key."""
        if not await auth.revoke_key(self._context, key_id):
            raise Refused("NO_SUCH_KEY", f"There is no key {key_id}. GET /api/v1/keys lists them.", 404)
        await self._audit(caller, "key.revoke", key_id)
        return RevokedApiKey(id=key_id)
