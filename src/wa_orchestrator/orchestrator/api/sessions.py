"""The HTTP API of sessions: its routes, and those that change something. Looking is in `session_looks`."""

import asyncio
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import AliasChoices, Field, field_validator

from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone as phones
from wa_orchestrator.domain import proxy_url
from wa_orchestrator.domain.session import Event, Reason, State
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.api import qr
from wa_orchestrator.orchestrator.api.session_reads import ID, Looks, SessionId, find
from wa_orchestrator.orchestrator.sessions import credential_files, transitions
from wa_orchestrator.orchestrator.sessions import provision as provisioning
from wa_orchestrator.orchestrator.workers import command_calls
from wa_orchestrator.store import audit, keys, records
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import AdminCaller, Caller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses

_REMOVED_WITHIN_S = 15.0
_CODE_WITHIN_S = 20.0
_REPORTED_WITHIN_S = 5.0


class ProvisionBody(RequestModel):
    """A session to be made; everything may be left out."""

    phone: str | None = Field(None, examples=["972501234567"], description="8 to 15 digits, with the country code.")
    proxy: str | None = Field(
        None,
        validation_alias=AliasChoices("proxy", "proxyOverride"),
        examples=["socks5h://user:password@proxy.example.com:1080"],
        description="`socks5h://` only. Joins the pool and becomes the phone's own.",
    )
    session_id: str | None = Field(None, pattern=ID, examples=["branch-tel-aviv"])
    label: str | None = Field(None, max_length=100, examples=["support"])
    pairing: Literal["qr", "code"] = "qr"

    @field_validator("phone", "proxy", "label", mode="after")
    @classmethod
    def _stripped(cls, value: str | None) -> str | None:
        return value.strip() if value else value


class PairingBody(RequestModel):
    """Whose phone will enter the code; may be left out when the session was provisioned for one."""

    phone: str | None = Field(None, examples=["972501234567"])


def router(context: Context) -> APIRouter:
    """Offer the routes of sessions."""
    routes = APIRouter(prefix="/api/sessions", tags=["sessions"])
    looks, acts = Looks(context), _Acts(context)
    missing = responses(NO_SUCH_SESSION=404)
    routes.get("", summary="List sessions", responses=responses(BAD_CURSOR=400))(looks.index)
    routes.post(
        "/provision",
        status_code=201,
        summary="Make a session and queue its start",
        responses=_PROVISIONING,
    )(acts.provision)
    routes.get("/{session_id}", summary="One session", responses=missing)(looks.one)
    routes.get("/{session_id}/status", summary="One session with its worker and queue", responses=missing)(looks.one)
    routes.get("/{session_id}/history", summary="What happened to it, the newest first", responses=missing)(
        looks.history
    )
    routes.get(
        "/{session_id}/qr",
        summary="The code to scan: JSON, PNG or SVG by Accept",
        responses={**missing, **responses(NO_QR=404, NO_SUCH_SESSION=404)},
    )(looks.qr)
    routes.post(
        "/{session_id}/pairing-code",
        summary="Link by a code of 8 characters instead of a QR",
        responses={**missing, **responses(PHONE_NEEDED_FOR_CODE=422, ALREADY_LINKED=409, NO_CODE_YET=503)},
    )(acts.pairing_code)
    for action in ("restart", "stop", "start", "logout"):
        routes.post(f"/{{session_id}}/{action}", summary=_SUMMARY[action], responses=missing)(getattr(acts, action))
    routes.delete("/{session_id}", summary="Delete a session; its phone keeps its proxy", responses=missing)(
        acts.delete
    )
    routes.post(
        "/{session_id}/restore-credentials",
        summary="Bring back the newest credentials of this session from the trash",
        responses={**missing, **responses(NOT_IN_TRASH=404)},
    )(acts.restore_credentials)
    return routes


_PROVISIONED = {
    "sessionId": "worker_1",
    "status": "pending",
    "proxy": "socks5h://user:***@proxy.example.com:1080",
}
_PROVISIONING: dict[int | str, dict[str, Any]] = {
    **responses(
        BAD_PHONE=400,
        BAD_PROXY_URL=400,
        PHONE_NEEDED_FOR_CODE=422,
        SESSION_EXISTS=409,
        PHONE_FULL=409,
        PROXY_FULL=409,
        PROXY_BAD=409,
        STICKY_PROXY_FULL=409,
        NO_PROXY_CAPACITY=409,
    ),
    201: {"content": {"application/json": {"example": _PROVISIONED}}},
}
_SUMMARY = {
    "restart": "Replace its worker; credentials stay",
    "stop": "Stop its worker; messages wait",
    "start": "Start it again",
    "logout": "Unlink the device from its phone",
}


class _Acts:
    """One method per route that changes a session."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def provision(self, body: ProvisionBody, caller: AdminCaller) -> dict[str, Any]:
        wish = provisioning.SessionRequest(
            phones.parse(body.phone) if body.phone else "",
            proxy_url.parse(body.proxy) if body.proxy else None,
            body.session_id or "",
            body.label or "",
            body.pairing,
        )
        if wish.pairing == "code" and not wish.phone:
            raise Refused("PHONE_NEEDED_FOR_CODE", "To link by code, say which phone will enter it: give `phone`.", 422)
        session = await provisioning.provision(self._context, wish)
        await audit.record(self._context.scripts, caller.key_id, "session.provision", session.id, label=wish.label)
        proxy = await records.proxy(self._context.scripts, session.proxy)
        return {"sessionId": session.id, "status": session.status, "proxy": proxy.masked if proxy else None}

    async def pairing_code(
        self, session_id: SessionId, caller: AdminCaller, body: PairingBody | None = None
    ) -> dict[str, Any]:
        session = await find(self._context, session_id)
        phone = phones.parse(body.phone) if body and body.phone else session.phone
        if not phone:
            raise Refused("PHONE_NEEDED_FOR_CODE", "To link by code, say which phone will enter it: give `phone`.", 422)
        if session.status == State.CONNECTED:
            raise Refused("ALREADY_LINKED", f"Session {session_id} is linked. Log it out first.", 409)
        await audit.record(self._context.scripts, caller.key_id, "session.pairing_code", session_id)
        before = await self._context.redis.get(keys.qr(session_id))
        await command_calls.ask(
            self._context, session_id, command_calls.WorkerCommand("pairing_code", {"phone": phone}), _CODE_WITHIN_S
        )
        return await self._next_code(session_id, before)

    async def _next_code(self, session_id: str, before: object) -> dict[str, Any]:
        deadline = time.monotonic() + _CODE_WITHIN_S
        while time.monotonic() < deadline:
            text = await self._context.redis.get(keys.qr(session_id))
            if text is not None and text != before:
                code = await qr.code_of(self._context, await find(self._context, session_id))
                if code.code:
                    return {"sessionId": session_id, "code": code.code, "expiresAt": iso(code.expires_at_ms)}
            await asyncio.sleep(0.1)
        raise Unavailable("NO_CODE_YET", "WhatsApp gave no code yet. Try again in a moment.", retryAfterS=5)

    async def restart(self, session_id: SessionId, caller: AdminCaller) -> dict[str, Any]:
        session = await find(self._context, session_id)
        await self._context.redis.delete(keys.restarts(session_id))
        await transitions.request_restart(self._context, session, Event.RESTART_ASKED, {"wanted": transitions.RUNNING})
        return await self._done(caller, "session.restart", session_id)

    async def start(self, session_id: SessionId, caller: AdminCaller) -> dict[str, Any]:
        await find(self._context, session_id)
        await self._context.redis.delete(keys.restarts(session_id))
        await transitions.apply(self._context, session_id, Event.START_ASKED, {"wanted": transitions.RUNNING})
        await transitions.request_attention(self._context, session_id)
        return await self._done(caller, "session.start", session_id)

    async def stop(self, session_id: SessionId, caller: AdminCaller) -> dict[str, Any]:
        await find(self._context, session_id)
        await transitions.apply(self._context, session_id, Event.STOP_ASKED, {"wanted": transitions.STOPPED})
        await transitions.request_attention(self._context, session_id)
        return await self._done(caller, "session.stop", session_id)

    async def logout(self, session_id: SessionId, caller: AdminCaller) -> dict[str, Any]:
        """Unlink at WhatsApp where there is a connection; the credentials go to the trash in any case."""
        session = await find(self._context, session_id)
        if session.status == State.CONNECTED:
            await command_calls.ask(
                self._context, session_id, command_calls.WorkerCommand("logout", {}), _CODE_WITHIN_S
            )
        if session.status != State.CONNECTED or not await self._reported_logout(session):
            fields: dict[str, str | int] = {"discard": "1", "restart_epoch": session.epoch}
            await transitions.apply(self._context, session_id, Event.LOGGED_OUT, fields)
            await transitions.request_attention(self._context, session_id)
        return await self._done(caller, "session.logout", session_id)

    async def _reported_logout(self, before: Session) -> bool:
        """Wait for the worker's own report; to act on both would throw away the new worker's credentials too."""
        deadline = time.monotonic() + _REPORTED_WITHIN_S
        while time.monotonic() < deadline:
            session = await find(self._context, before.id)
            if session.epoch != before.epoch or session.reason == Reason.LOGGED_OUT:
                return True
            await asyncio.sleep(0.05)
        return False

    async def delete(
        self,
        session_id: SessionId,
        caller: AdminCaller,
        *,
        forget: Annotated[bool, Query(description="Also forget the phone's own proxy.")] = False,
        queued: Annotated[
            Literal["cancel", "reroute"], Query(description="What becomes of its queued messages.")
        ] = "cancel",
    ) -> dict[str, Any]:
        await find(self._context, session_id)
        fields: dict[str, str | int] = {
            "removing": "forget" if forget else "keep",
            "removing_queued": queued,
            "wanted": transitions.STOPPED,
        }
        await transitions.apply(self._context, session_id, Event.STOP_ASKED, fields)
        await transitions.request_attention(self._context, session_id)
        await audit.record(
            self._context.scripts, caller.key_id, "session.delete", session_id, forget=forget, queued=queued
        )
        gone = await self._gone(session_id)
        return {"sessionId": session_id, "deleted": gone}

    async def _gone(self, session_id: str) -> bool:
        deadline = time.monotonic() + _REMOVED_WITHIN_S
        while time.monotonic() < deadline:
            if not await self._context.redis.exists(keys.session(session_id)):
                return True
            await asyncio.sleep(0.05)
        return False

    async def restore_credentials(self, session_id: SessionId, caller: AdminCaller) -> dict[str, Any]:
        await find(self._context, session_id)
        found = [each for each in credential_files.list_trash(self._context.settings) if each.session_id == session_id]
        if not found:
            text = f"There are no credentials of {session_id} in the trash. GET /api/v1/trash lists what is."
            raise Refused("NOT_IN_TRASH", text, 404)
        await transitions.apply(
            self._context, session_id, Event.RESTART_ASKED, {"restore": found[0].id, "wanted": transitions.RUNNING}
        )
        await transitions.request_attention(self._context, session_id)
        return await self._done(caller, "session.restore_credentials", session_id)

    async def _done(self, caller: Caller, action: str, session_id: str) -> dict[str, Any]:
        await audit.record(self._context.scripts, caller.key_id, action, session_id)
        session = await find(self._context, session_id)
        return {"sessionId": session_id, "status": session.status, "reason": session.reason or None}
