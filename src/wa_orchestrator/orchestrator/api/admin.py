"""The HTTP API of keys, the audit log, the trash, and the simulated world's address."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.session import Event
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api import session_reads
from wa_orchestrator.orchestrator.sessions import credential_files, provision, transitions
from wa_orchestrator.orchestrator.sessions.credential_files import TrashedCredentials
from wa_orchestrator.store import api_keys, audit, records
from wa_orchestrator.store.api_keys import ApiKey, Scope
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web import auth
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses


class KeyBody(RequestModel):
    """A key to be made."""

    name: str = Field(min_length=1, max_length=100, examples=["CRM"])
    scopes: list[Scope] = Field(min_length=1, max_length=3, examples=[["send", "read"]])


def router(context: Context) -> APIRouter:
    """Offer the routes for administrators."""
    routes = APIRouter(prefix="/api/v1", tags=["administration"])
    api = _Administration(context)
    routes.get("/keys", summary="List API keys; never the keys themselves")(api.keys)
    routes.post("/keys", status_code=201, summary="Make an API key; it is shown this once")(api.make_key)
    routes.delete("/keys/{key_id}", summary="Revoke an API key", responses=responses(NO_SUCH_KEY=404))(api.revoke)
    routes.get("/audit", summary="What operators did, the newest first")(api.audit)
    routes.get("/trash", summary="Credentials that can be brought back")(api.trash)
    routes.post(
        "/trash/{trash_id}/restore",
        summary="Bring credentials back; a deleted session is made again",
        responses=responses(NOT_IN_TRASH=404, NO_PROXY_CAPACITY=409, PHONE_FULL=409),
    )(api.restore)
    routes.get("/simulator", summary="Where the simulated world is", responses=responses(NO_SIMULATOR=404))(
        api.simulator
    )
    return routes


def _key(record: ApiKey) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "scopes": sorted(record.scopes),
        "prefix": record.prefix,
        "createdAt": iso(record.created_at_ms),
    }


def _discarded(each: TrashedCredentials) -> dict[str, Any]:
    return {
        "id": each.id,
        "sessionId": each.session_id,
        "phone": each.phone or None,
        "label": each.label or None,
        "why": each.why,
        "discardedAt": iso(each.at_ms),
    }


class _Administration:
    """One method per route."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def keys(self, _caller: AdminCaller) -> dict[str, Any]:
        return {"keys": [_key(record) for record in await api_keys.every(self._context.scripts)]}

    async def make_key(self, body: KeyBody, caller: AdminCaller) -> dict[str, Any]:
        record, secret = await api_keys.create(self._context.scripts, body.name, body.scopes)
        await audit.record(
            self._context.scripts, caller.key_id, "key.make", record.id, name=body.name, scopes=body.scopes
        )
        return {**_key(record), "key": secret}

    async def revoke(self, key_id: Annotated[str, Path(max_length=64)], caller: AdminCaller) -> dict[str, Any]:
        if not await auth.revoke_key(self._context, key_id):
            raise Refused("NO_SUCH_KEY", f"There is no key {key_id}. GET /api/v1/keys lists them.", 404)
        await audit.record(self._context.scripts, caller.key_id, "key.revoke", key_id)
        return {"id": key_id, "revoked": True}

    async def audit(
        self,
        *,
        _caller: AdminCaller,
        before: Annotated[str | None, Query(pattern=r"^\d+-\d+$", description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> dict[str, Any]:
        entries = await audit.read(self._context.scripts, before=before, most=limit)
        shown = [{"cursor": entry.cursor, **entry.fields, "at": iso(int(entry.fields["at"]))} for entry in entries]
        return {"entries": shown, "next": entries[-1].cursor if len(entries) == limit else None}

    async def trash(self, _caller: AdminCaller) -> dict[str, Any]:
        return {"trash": [_discarded(each) for each in credential_files.list_trash(self._context.settings)]}

    async def restore(self, trash_id: Annotated[str, Path(max_length=100)], caller: AdminCaller) -> dict[str, Any]:
        found = credential_files.find(self._context.settings, trash_id)
        session = await records.session(self._context.scripts, found.session_id)
        if session is None:
            await self._make_again(found)
        else:
            await session_reads.find(self._context, found.session_id)
            await transitions.apply(
                self._context,
                found.session_id,
                Event.RESTART_ASKED,
                {"restore": found.id, "wanted": transitions.RUNNING},
            )
            await transitions.request_attention(self._context, found.session_id)
        await audit.record(self._context.scripts, caller.key_id, "trash.restore", trash_id)
        return {"sessionId": found.session_id, "restored": True}

    async def _make_again(self, found: TrashedCredentials) -> None:
        """Make the session anew. Its record says from the first moment which credentials it waits for."""
        credential_files.require_none(self._context.settings, found.session_id)
        wish = provision.SessionRequest(found.phone, None, found.session_id, found.label, restore=found.id)
        await provision.provision(self._context, wish)
        await transitions.request_attention(self._context, found.session_id)

    async def simulator(self, _caller: AdminCaller) -> dict[str, Any]:
        if self._context.simulator is None:
            raise Refused("NO_SIMULATOR", "This server runs without a simulated world. Start it with --simulate.", 404)
        return self._context.simulator
