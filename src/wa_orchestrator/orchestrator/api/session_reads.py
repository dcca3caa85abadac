"""Routes that read sessions: the list, one session, its history and its QR code."""

import base64
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.session import State
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api import qr
from wa_orchestrator.orchestrator.api.response_models import SessionDetail, SessionPage, session_detail, session_view
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Entry, Session
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.models import ResponseModel, Timestamp

ID = r"^[A-Za-z0-9_-]{1,64}$"
SessionId = Annotated[str, Path(pattern=ID, description="The session's id.", examples=["worker_1"])]


class SessionHistoryEntry(ResponseModel):
    """Something that happened to a session; further fields depend on `type`."""

    model_config = ConfigDict(extra="allow")
    cursor: str
    type: str = Field(examples=["session.connected"])
    at: Timestamp | None


class SessionHistory(ResponseModel):
    """What happened to a session, the newest first."""

    session_id: str
    events: list[SessionHistoryEntry]


class LinkCode(ResponseModel):
    """The code that links a phone: a QR code, or 8 characters to type."""

    expires_at: Timestamp | None
    shown_at: Timestamp | None
    qr: str | None = Field(None, description="The text of the QR code.")
    image: str | None = Field(None, description="The QR code as a `data:` URL with a PNG.")
    code: str | None = Field(None, description="Instead of `qr`, where the phone enters a code.", examples=["ABCD1234"])


def no_such_session(session_id: str) -> Refused:
    """Return the error for an unknown session id."""
    text = f"There is no session {session_id}. GET /api/sessions lists them."
    return Refused("NO_SUCH_SESSION", text, 404, sessionId=session_id)


async def find(context: Context, session_id: str) -> Session:
    """Return a session; raise `Refused` when there is none."""
    session = await records.session(context.scripts, session_id)
    if session is None or session.removing:
        raise no_such_session(session_id)
    return session


class SessionReads:
    """One method per route."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_sessions(
        self,
        *,
        _caller: ReadCaller,
        status: Annotated[State | None, Query(description="Only with this status.")] = None,
        proxy: Annotated[str | None, Query(description="Only on the proxy with this id.")] = None,
        label: Annotated[str | None, Query(description="Only with this label.")] = None,
        text: Annotated[str | None, Query(description="Only with this in id, phone or label.")] = None,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=paging.MOST)] = 100,
    ) -> SessionPage:
        """List sessions."""
        scripts, language = self._context.scripts, self._context.settings.language
        found = [
            session
            for session in await records.sessions(scripts)
            if _matches(session, status=status, proxy=proxy, label=label, text=text)
        ]
        shown, following = paging.page(found, cursor, limit, lambda session: session.id)
        proxies = {each.id: each for each in await records.proxies(scripts)}
        now_ms = await scripts.now_ms()
        views = [session_view(session, proxies.get(session.proxy), now_ms, language) for session in shown]
        return SessionPage(sessions=views, total=len(found), next=following)

    async def get_session(self, session_id: SessionId, _caller: ReadCaller) -> SessionDetail:
        """Get a session with its worker and its queue."""
        return await session_detail(self._context, await find(self._context, session_id))

    async def get_session_history(
        self, session_id: SessionId, _caller: ReadCaller, limit: Annotated[int, Query(ge=1, le=500)] = 100
    ) -> SessionHistory:
        """Get what happened to a session, the newest first."""
        await find(self._context, session_id)
        entries = await event_stream.latest(self._context.scripts, keys.session_events(session_id), most=limit)
        events = [_history_entry(each) for each in entries]
        return SessionHistory(session_id=session_id, events=events)

    async def get_session_qr(self, session_id: SessionId, request: Request, _caller: AdminCaller) -> Response:
        """Get the QR code or the pairing code of a session.

        `Accept: image/png` or `image/svg+xml` asks for the QR code as a picture. A code is valid for about 20 seconds;
        then the session shows the next one.
        """
        code = await qr.code_of(self._context, await find(self._context, session_id))
        accept = request.headers.get("accept", "")
        no_store = {"Cache-Control": "no-store"}
        for kind, mimetype in (("png", "image/png"), ("svg", "image/svg+xml")):
            if mimetype in accept and code.qr:
                return Response(qr.picture(code.qr, kind), media_type=mimetype, headers=no_store)
        shown: dict[str, Any] = {"expires_at": iso(code.expires_at_ms), "shown_at": iso(code.at_ms)}
        if code.qr:
            image = base64.b64encode(qr.picture(code.qr, "png")).decode()
            shown |= {"qr": code.qr, "image": f"data:image/png;base64,{image}"}
        else:
            shown |= {"code": code.code}
        return JSONResponse(LinkCode(**shown).model_dump(by_alias=True, exclude_unset=True), headers=no_store)


def _history_entry(entry: Entry) -> SessionHistoryEntry:
    fields: dict[str, Any] = {**entry.fields, "cursor": entry.cursor, "at": iso(int(entry.fields.get("at") or 0))}
    return SessionHistoryEntry(**fields)


def _matches(session: Session, *, status: State | None, proxy: str | None, label: str | None, text: str | None) -> bool:
    if session.removing:
        return False
    haystack = f"{session.id} {session.phone} {session.label}".lower()
    return (
        (status is None or session.status == status)
        and (proxy is None or session.proxy == proxy)
        and (label is None or session.label == label)
        and (text is None or text.lower() in haystack)
    )
