"""Routes that read sessions: the list, one session, its history and its QR code. No response has a secret."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import ConfigDict, Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import EVERYTHING, Reach
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.sessions.session import Reason, State, needs_person
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.messages.session_pace import trust_of
from wa_orchestrator.orchestrator.api.events import views as event_views
from wa_orchestrator.orchestrator.api.sessions import qr
from wa_orchestrator.orchestrator.sessions import transitions
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
#: Nor what the operators wrote about it.
_NO_DETAIL = _NO_PROXY | {"notes": None}
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
    tags: list[str] = Field(description="Groups it belongs to.", examples=[["haifa", "vip"]])
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
    node: OptionalText = Field(description="Where it runs; null where all run on one machine.")
    socket: OptionalText = Field(description="The state of its connection to WhatsApp.")
    lag_ms: int = Field(description="How late its event loop was.")
    rss_bytes: int = Field(description="Its memory.")
    last_traffic_at: OptionalTimestamp = Field(description="When WhatsApp last sent anything.")


class SessionMove(ResponseModel):
    """The last move of a session from one node to another."""

    session_id: str
    from_node: OptionalText = Field(description="The node that it left.", examples=["node-1"])
    to_node: OptionalText = Field(description="Where it goes or went; null while the engine chooses.")
    requested_at: OptionalTimestamp
    away_ms: int | None = Field(description="How long it was away; null until it is connected again.", examples=[3200])


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
    notes: OptionalText = Field(description="What people wrote about it.")
    timezone: OptionalText = Field(description="Of its hours and days, if it has its own.")
    next_restart_proxy: bool = Field(description="It was moved to its proxy and uses it from the next restart on.")
    last_move: SessionMove | None = Field(description="Null if it was never moved to another node.")
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
        tag: Annotated[str | None, Query(description="Only with this tag.")] = None,
        text: Annotated[str | None, Query(description="Search in id, phone, label and tags.")] = None,
        cursor: paging.Cursor = None,
        limit: paging.Limit = 100,
    ) -> SessionPage:
        """List sessions."""
        wanted = SessionFilter(status, proxy, label, tag, text)
        if wanted == SessionFilter() and not caller.is_limited:
            return await self._page_of_all(cursor, limit)
        every = [each for each in await records.sessions(self._scripts) if _reaches(caller, each, proxy)]
        found = [each for each in every if wanted.matches(each)]
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
        shown = await detail(self._context, await find(self._context, session_id, caller.reach))
        return _without_shared(shown) if caller.is_limited else shown

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


def _without_shared(shown: SessionDetail) -> SessionDetail:
    """Return a session as callers that are limited to some get it: without what others have, too."""
    worker = shown.worker.model_copy(update={"node": None})
    return shown.model_copy(update=_NO_DETAIL | {"worker": worker, "last_move": None})


def _history_entry(entry: Entry, hidden: frozenset[str]) -> dict[str, object]:
    fields = {name: "" if name in hidden else value for name, value in entry.fields.items()}
    return {**fields, "cursor": entry.cursor, "at": int(fields.get("at") or 0)}


async def detail(context: Context, session: Session) -> SessionDetail:
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
        notes=session.notes,
        timezone=session.timezone,
        next_restart_proxy=bool(session.leaving) and not transitions.restart_pending(session),
        reported_phone=session.reported_phone,
        last_move=move_of(session) if session.moved_at else None,
    )


def move_of(session: Session) -> SessionMove:
    return SessionMove.of(
        session,
        session_id=session.id,
        from_node=session.moved_from,
        to_node=session.move_to or session.node,
        requested_at=session.moved_at,
        away_ms=session.away_ms or None,
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


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions a list shows; None is any."""

    status: State | None = None
    proxy: str | None = None
    label: str | None = None
    tag: str | None = None
    text: str | None = None

    def matches(self, session: Session) -> bool:
        """Whether the list shows a session. One that is being removed is in no list."""
        haystack = " ".join((session.id, session.phone, session.label, *session.tags)).lower()
        return not session.removing and (
            (self.status is None or session.status == self.status)
            and (self.proxy is None or session.proxy == self.proxy)
            and (self.label is None or session.label == self.label)
            and (self.tag is None or self.tag in session.tags)
            and (self.text is None or self.text.lower() in haystack)
        )
