"""Routes for administrators: API keys, the audit log, the trash, and the address of the simulator."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api import sessions
from wa_orchestrator.orchestrator.sessions import credential_files, provision
from wa_orchestrator.orchestrator.sessions.credential_files import TrashedCredentials
from wa_orchestrator.store import records
from wa_orchestrator.store.access import api_keys, audit
from wa_orchestrator.store.access.api_keys import ApiKey, Scope
from wa_orchestrator.store.sessions import control_plane
from wa_orchestrator.web import auth, paging
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.ids import KeyId, TrashId
from wa_orchestrator.web.models import NextCursor, OptionalText, OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup


class KeyBody(RequestModel):
    """A key to create."""

    name: str = Field(min_length=1, max_length=100, examples=["CRM"])
    scopes: list[Scope] = Field(min_length=1, max_length=3, examples=[["send", "read"]])


class ApiKeyView(ResponseModel):
    """An API key, without the key itself."""

    id: str = Field(examples=["k_1a2b3c4d5e6f"])
    name: str
    scopes: list[Scope]
    prefix: str = Field(description="How the key begins.", examples=["wao_Ab3d"])
    created_at: OptionalTimestamp


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


class AuditEntry(ResponseModel):
    """Something that an operator did."""

    cursor: str
    at: OptionalTimestamp
    by: str = Field(description="The id of the key, or `dashboard:<name>`.")
    action: str = Field(examples=["session.restart"])
    target: str = Field(examples=["worker_1"])
    details: str = Field(description="A JSON object; secrets are hidden.")


class AuditPage(ResponseModel):
    """A page of the audit log, the newest first."""

    entries: list[AuditEntry]
    next: NextCursor


class TrashItem(ResponseModel):
    """Credentials that can be restored."""

    id: str
    session_id: str
    phone: OptionalText
    label: OptionalText
    why: str
    discarded_at: OptionalTimestamp


class TrashResponse(ResponseModel):
    """The trash, the newest first."""

    trash: list[TrashItem]


class RestoredSession(ResponseModel):
    """The session that has its credentials back."""

    session_id: str
    restored: Literal[True] = True


class SimulatorAddresses(ResponseModel):
    """Where the simulated WhatsApp is."""

    control: str = Field(description="The URL of its control API.")
    ca_file: str = Field(description="The certificate that its servers are signed with.")
    proxies: list[str] = Field(description="The URLs of its proxies, with passwords.")
    telegram: str = Field(description="The URL of its Telegram API.")


def _view(key: ApiKey) -> ApiKeyView:
    return ApiKeyView.of(key, scopes=sorted(key.scopes), created_at=key.created_at_ms)


class AdminRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1", "administration")
        restore = responses(NOT_IN_TRASH=404, NO_PROXY_CAPACITY=409, PHONE_FULL=409)
        self.get("/keys")(self.list_api_keys)
        self.post("/keys", status_code=201)(self.create_api_key)
        self.delete("/keys/{key_id}", responses=responses(NO_SUCH_KEY=404))(self.revoke_api_key)
        self.get("/audit")(self.list_audit_entries)
        self.get("/trash")(self.list_trash)
        self.post("/trash/{trash_id}/restore", responses=restore)(self.restore_from_trash)
        self.get("/simulator", responses=responses(NO_SIMULATOR=404))(self.get_simulator)

    async def list_api_keys(self, _caller: AdminCaller) -> ApiKeysResponse:
        """List API keys, without the keys themselves."""
        return ApiKeysResponse(keys=[_view(key) for key in await api_keys.every(self._scripts)])

    async def create_api_key(self, body: KeyBody, caller: AdminCaller) -> CreatedApiKey:
        """Create an API key. The response is the only place that shows it."""
        key, secret = await api_keys.create(self._scripts, body.name, body.scopes)
        await self._audit(caller, "key.make", key.id, name=body.name, scopes=body.scopes)
        return CreatedApiKey.of(_view(key), key=secret)

    async def revoke_api_key(self, key_id: KeyId, caller: AdminCaller) -> RevokedApiKey:
        """Revoke an API key."""
        if not await auth.revoke_key(self._context, key_id):
            raise Refused("NO_SUCH_KEY", f"There is no key {key_id}. GET /api/v1/keys lists them.", 404)
        await self._audit(caller, "key.revoke", key_id)
        return RevokedApiKey(id=key_id)

    async def list_audit_entries(
        self,
        *,
        _caller: AdminCaller,
        before: Annotated[str | None, Query(pattern=r"^\d+-\d+$", description="`next` of the page before.")] = None,
        limit: paging.Limit = 100,
    ) -> AuditPage:
        """List what operators did, the newest first."""
        found = await audit.read(self._scripts, before=before, most=limit)
        entries = [{**each.fields, "cursor": each.cursor, "at": int(each.fields["at"])} for each in found]
        following = found[-1].cursor if len(found) == limit else None
        return AuditPage.model_validate({"entries": entries, "next": following})

    async def list_trash(self, _caller: AdminCaller) -> TrashResponse:
        """List credentials that can be restored."""
        found = credential_files.list_trash(self._settings)
        return TrashResponse(trash=[TrashItem.of(each, discarded_at=each.at_ms) for each in found])

    async def restore_from_trash(self, trash_id: TrashId, caller: AdminCaller) -> RestoredSession:
        """Restore credentials; a deleted session is created again."""
        found = credential_files.find(self._settings, trash_id)
        session = await records.session(self._scripts, found.session_id)
        if session is None:
            await self._create_again(found)
        else:
            await sessions.restore(self._context, found)
        await self._audit(caller, "trash.restore", trash_id)
        return RestoredSession(session_id=found.session_id)

    async def _create_again(self, found: TrashedCredentials) -> None:
        """Create the session. Its record names the credentials from the start, so its worker waits for them."""
        credential_files.require_none(self._settings, found.session_id)
        wanted = provision.SessionRequest(found.phone, None, found.session_id, found.label, restore=found.id)
        await provision.provision(self._context, wanted)
        await control_plane.request_attention(self._scripts, found.session_id)

    async def get_simulator(self, _caller: AdminCaller) -> SimulatorAddresses:
        """Get the addresses of the simulated WhatsApp."""
        if self._context.simulator is None:
            raise Refused("NO_SIMULATOR", "This server runs without a simulator. Start it with --simulate.", 404)
        return SimulatorAddresses(**self._context.simulator)
