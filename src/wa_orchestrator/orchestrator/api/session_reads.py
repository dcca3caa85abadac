"""Looking at sessions over HTTP: the list, one of them, what happened to it, and the code it shows."""

import base64
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.responses import JSONResponse

from wa_orchestrator.context import Context
from wa_orchestrator.domain.session import State
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api import qr, views
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import AdminCaller, ReadCaller

ID = r"^[A-Za-z0-9_-]{1,64}$"
SessionId = Annotated[str, Path(pattern=ID, description="The session's id.", examples=["worker_1"])]


def no_such_session(session_id: str) -> Refused:
    """The refusal for an id that nobody has."""
    return Refused("NO_SUCH_SESSION", f"There is no session {session_id}. GET /api/sessions lists them.", 404)


async def find(context: Context, session_id: str) -> Session:
    """Give a session, or raise `Refused`."""
    session = await records.session(context.scripts, session_id)
    if session is None or session.fields.get("removing"):
        raise no_such_session(session_id)
    return session


class Looks:
    """One method per route that changes nothing."""

    def __init__(self, context: Context) -> None:
        """Look at this context's store."""
        self._context = context

    async def index(
        self,
        *,
        _caller: ReadCaller,
        status: Annotated[State | None, Query(description="Only with this status.")] = None,
        proxy: Annotated[str | None, Query(description="Only on the proxy with this id.")] = None,
        label: Annotated[str | None, Query(description="Only with this label.")] = None,
        text: Annotated[str | None, Query(description="Only with this in id, phone or label.")] = None,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=paging.MOST)] = 100,
    ) -> dict[str, Any]:
        found = [
            session
            for session in await records.sessions(self._context.scripts)
            if _matches(session, status=status, proxy=proxy, label=label, text=text)
        ]
        shown, following = paging.page(found, cursor, limit, lambda session: session.id)
        proxies = {each.id: each for each in await records.proxies(self._context.scripts)}
        now = await self._context.scripts.now_ms()
        language = self._context.settings.language
        return {
            "sessions": [views.session_view(session, proxies, now, language) for session in shown],
            "total": len(found),
            "next": following,
        }

    async def one(self, session_id: SessionId, _caller: ReadCaller) -> dict[str, Any]:
        session = await find(self._context, session_id)
        return await views.status_view(self._context, session, self._context.settings.language)

    async def history(
        self, session_id: SessionId, _caller: ReadCaller, limit: Annotated[int, Query(ge=1, le=500)] = 100
    ) -> dict[str, Any]:
        await find(self._context, session_id)
        raw: Any = await self._context.redis.xrevrange(keys.session_events(session_id), count=limit)
        events = [{"cursor": cursor, **fields, "at": iso(int(fields.get("at") or 0))} for cursor, fields in raw]
        return {"sessionId": session_id, "events": events}

    async def qr(self, session_id: SessionId, request: Request, _caller: AdminCaller) -> Response:
        code = await qr.code_of(self._context, await find(self._context, session_id))
        accept = request.headers.get("accept", "")
        kept_private = {"Cache-Control": "no-store"}
        for kind, mimetype in (("png", "image/png"), ("svg", "image/svg+xml")):
            if mimetype in accept and code.qr:
                return Response(qr.picture(code.qr, kind), media_type=mimetype, headers=kept_private)
        answer: dict[str, Any] = {"expiresAt": iso(code.expires_at_ms), "shownAt": iso(code.at_ms)}
        if code.qr:
            image = base64.b64encode(qr.picture(code.qr, "png")).decode()
            answer |= {"qr": code.qr, "image": f"data:image/png;base64,{image}"}
        else:
            answer |= {"code": code.code}
        return JSONResponse(answer, headers=kept_private)


def _matches(session: Session, *, status: State | None, proxy: str | None, label: str | None, text: str | None) -> bool:
    if session.fields.get("removing"):
        return False
    haystack = f"{session.id} {session.phone} {session.label}".lower()
    return (
        (status is None or session.status == status)
        and (proxy is None or session.proxy == proxy)
        and (label is None or session.label == label)
        and (text is None or text.lower() in haystack)
    )
