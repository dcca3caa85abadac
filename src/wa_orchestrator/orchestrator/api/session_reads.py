"""Routes that read sessions: the list, one session, its history and its QR code. No response has a secret."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import ConfigDict, Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access import EVERYTHING, Reach
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.session import Reason, State, needs_person
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.messages.session_pace import trust_of
from wa_orchestrator.orchestrator.api import event_views, qr
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import phone_queues
from wa_orchestrator.store.records import Entry, Proxy, Session
from wa_orchestrator.store.sessions.labels import labels_of
from wa_orchestrator.texts import catalogue
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import Caller, LimitedOperator, LimitedReader
from wa_orchestrator.web.models import NextCursor, OptionalText, OptionalTimestamp, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

MISSING = responses(NO_SUCH_SESSION=404)
ID = r"^[A-Za-z0-9_-]{1,64}$"
#: Proxies are shared: a caller that is limited to some sessions is not told which it has.
_NO_PROXY = {"proxy": None, "proxy_id": None}
SessionId = Annotated[str, Path(pattern=ID, description="The session's id.", examples=["worker_1"])]


class SessionView(ResponseModel):
    """A session, as lists show it."""

    session_id: str = Field(examples=["worker_1"])
    status: State
    reason: Reason | None = Field(description="Why it has this status.")
    reason_text: str | None = Field(description="The reason for a person, with what to do.")
    needs_person: bool = Field(description="Whether it stays like this until somebody acts.")
    phone: OptionalText = Field(examples=["972501234567"])
    label: OptionalText
    proxy: OptionalText = Field(description="The URL of its proxy, without the password.")
    proxy_id: OptionalText
    trust: Trust = Field(description="By the time since it was first linked; decides which limits hold.")
    device_name: OptionalText = Field(description="Its name in the phone's list of linked devices.")
    presence: OptionalText = Field(description="When it is shown as online, if it has its own choice.")
    created_at: OptionalTimestamp
    changed_at: OptionalTimestamp = Field(description="Since when it has this status.")
    connected_at: OptionalTimestamp
    first_connected_at: OptionalTimestamp
    last_ping_at: OptionalTimestamp = Field(description="When its worker last reported.")
    epoch: int = Field(description="Counts its workers; only the newest may send.")


class WorkerView(ResponseModel):
    """The process that runs a session, from its last report."""

    epoch: int
    started_at: OptionalTimestamp
    socket: OptionalText = Field(description="The state of its connection to WhatsApp.")
    lag_ms: int = Field(description="How late its event loop was.")
    rss_bytes: int = Field(description="Its memory.")
    last_traffic_at: OptionalTimestamp = Field(description="When WhatsApp last sent anything.")


class QueueView(ResponseModel):
    """The queue of a session's phone."""

    waiting: int = Field(description="All messages that wait: now, today and later.")
    now: int
    today: int
    later: int = Field(description="For another day: scheduled, deferred, or beyond today's limit.")
    in_flight: OptionalText = Field(description="The id of the message that is being sent.")


class SessionDetail(SessionView):
    """A session with its worker and its queue."""

    worker: WorkerView
    queue: QueueView
    ban_ends_at: OptionalTimestamp
    reported_phone: OptionalText = Field(description="With `PHONE_CHANGED`: the phone that its worker reported.")


class SessionPage(ResponseModel):
    """A page of sessions, sorted by id."""

    sessions: list[SessionView]
    total: int = Field(description="How many match, on all pages.")
    next: NextCursor


class SessionHistoryEntry(ResponseModel):
    """Something that happened to a session; further fields depend on `type`."""

    model_config = ConfigDict(extra="allow")
    cursor: str
    type: str = Field(examples=["session.connected"])
    at: OptionalTimestamp


class SessionHistory(ResponseModel):
    """What happened to a session, the newest first."""

    session_id: str
    events: list[SessionHistoryEntry]


async def find(context: Context, session_id: str, reach: Reach = EVERYTHING) -> Session:
    """Return a session; raise `Refused` when there is none within reach."""
    session = await records.session(context.scripts, session_id)
    if session is None or session.removing or not reach.includes(session.id, labels_of(session)):
        text = f"There is no session {session_id}. GET /api/sessions lists them."
        raise Refused("NO_SUCH_SESSION", text, 404, sessionId=session_id)
    return session


class SessionReadRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        one = "/{session_id}"
        self.get("", responses=responses(BAD_CURSOR=400))(self.list_sessions)
        self.get(one, responses=MISSING)(self.get_session)
        self.get(f"{one}/status", name="get_session_status", responses=MISSING)(self.get_session)
        self.get(f"{one}/history", responses=MISSING)(self.get_session_history)
        self.get(f"{one}/qr", responses=qr.RESPONSES)(self.get_session_qr)

    async def list_sessions(
        self,
        *,
        caller: LimitedReader,
        status: Annotated[State | None, Query(description="Only with this status.")] = None,
        proxy: Annotated[str | None, Query(description="Only on the proxy with this id.")] = None,
        label: Annotated[str | None, Query(description="Only with this label.")] = None,
        text: Annotated[str | None, Query(description="Only with this in id, phone or label.")] = None,
        cursor: paging.Cursor = None,
        limit: paging.Limit = 100,
    ) -> SessionPage:
        """List sessions."""
        if status is None and proxy is None and label is None and text is None and not caller.is_limited:
            return await self._page_of_all(cursor, limit)
        every = [each for each in await records.sessions(self._scripts) if _reaches(caller, each, proxy)]
        found = [each for each in every if _matches(each, status=status, proxy=proxy, label=label, text=text)]
        shown, following = paging.page(found, cursor, limit, lambda session: session.id)
        views = await self._views(shown)
        if caller.is_limited:
            views = [each.model_copy(update=_NO_PROXY) for each in views]
        return SessionPage(sessions=views, total=len(found), next=following)

    async def _page_of_all(self, cursor: str | None, limit: int) -> SessionPage:
        """Return a page of all sessions, reading those on it and no others."""
        ids = await sessions.present(self._scripts)
        names, following = paging.page(ids, cursor, limit, str)
        shown = await records.sessions(self._scripts, names)
        return SessionPage(sessions=await self._views(shown), total=len(ids), next=following)

    async def _views(self, shown: Sequence[Session]) -> list[SessionView]:
        used = {session.proxy for session in shown if session.proxy}
        proxies = {each.id: each for each in await records.proxies(self._scripts, used)}
        now_ms, language = await self._scripts.now_ms(), self._settings.language
        return [_view(session, proxies.get(session.proxy), now_ms, language) for session in shown]

    async def get_session(self, session_id: SessionId, caller: LimitedReader) -> SessionDetail:
        """Get a session with its worker and its queue."""
        shown = await _detail(self._context, await find(self._context, session_id, caller.reach))
        return shown.model_copy(update=_NO_PROXY) if caller.is_limited else shown

    async def get_session_history(
        self, session_id: SessionId, caller: LimitedReader, limit: paging.Limit = 100
    ) -> SessionHistory:
        """Get what happened to a session, the newest first."""
        await find(self._context, session_id, caller.reach)
        entries = await event_stream.latest(self._scripts, keys.session_events(session_id), most=limit)
        hidden = event_views.HIDDEN_FIELDS if caller.is_limited else frozenset()
        events = [_history_entry(each, hidden) for each in entries]
        return SessionHistory.model_validate({"session_id": session_id, "events": events})

    async def get_session_qr(self, session_id: SessionId, request: Request, caller: LimitedOperator) -> Response:
        """Get the QR code or the pairing code of a session.

        `Accept: image/png` or `image/svg+xml` asks for the QR code as a picture. A code is valid for about 20 seconds;
        then the session shows the next one.
        """
        session = await find(self._context, session_id, caller.reach)
        return await qr.answer(self._context, session, request.headers.get("accept", ""))


def _history_entry(entry: Entry, hidden: frozenset[str]) -> dict[str, object]:
    fields = {name: "" if name in hidden else value for name, value in entry.fields.items()}
    return {**fields, "cursor": entry.cursor, "at": int(fields.get("at") or 0)}


async def _detail(context: Context, session: Session) -> SessionDetail:
    scripts = context.scripts
    now_ms = await scripts.now_ms()
    waiting = await queue_forecast.waiting(scripts, context.settings, session, now_ms)
    in_flight = await phone_queues.in_flight(scripts, session.phone)
    return SessionDetail.of(
        _view(session, await records.proxy(scripts, session.proxy), now_ms, context.settings.language),
        worker=WorkerView.of(
            session, socket=session.ping_socket, lag_ms=session.ping_lag_ms, rss_bytes=session.ping_rss_bytes
        ),
        queue=QueueView.of(waiting, waiting=waiting.total, in_flight=in_flight),
        ban_ends_at=session.ban_ends_at,
        reported_phone=session.reported_phone,
    )


def _view(session: Session, proxy: Proxy | None, now_ms: int, language: str) -> SessionView:
    reason = session.reason
    return SessionView.of(
        session,
        session_id=session.id,
        reason_text=catalogue.text(language, f"session_reason.{reason}") if reason else None,
        needs_person=needs_person(session.status, reason),
        proxy=proxy.masked if proxy else None,
        proxy_id=session.proxy,
        trust=trust_of(session, now_ms),
    )


def _reaches(caller: Caller, session: Session, proxy: str | None) -> bool:
    """Whether a caller may see a session in a list; a limited one cannot ask for a proxy."""
    if caller.is_limited and proxy is not None:
        return False
    return caller.reach.includes(session.id, labels_of(session))


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
