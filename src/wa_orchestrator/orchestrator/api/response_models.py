"""Sessions and proxies as the API shows them: no secret, and with each reason a sentence that says what to do."""

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing import limits
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.proxy import ProxyStatus
from wa_orchestrator.domain.session import Reason, State, needs_person
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import phone_queues
from wa_orchestrator.store.records import Proxy, Session
from wa_orchestrator.texts import catalogue
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.models import NextCursor, ResponseModel, Timestamp


class SessionView(ResponseModel):
    """A session, as lists show it."""

    session_id: str = Field(examples=["worker_1"])
    status: State
    reason: Reason | None = Field(description="Why it has this status.")
    reason_text: str | None = Field(description="The reason for a person, with what to do.")
    needs_person: bool = Field(description="Whether it stays like this until somebody acts.")
    phone: str | None = Field(examples=["972501234567"])
    label: str | None
    proxy: str | None = Field(description="The URL of its proxy, without the password.")
    proxy_id: str | None
    trust: Trust = Field(description="By the time since it was first linked; decides which limits hold.")
    device_name: str | None = Field(description="Its name in the phone's list of linked devices.")
    created_at: Timestamp | None
    changed_at: Timestamp | None = Field(description="Since when it has this status.")
    connected_at: Timestamp | None
    first_connected_at: Timestamp | None
    last_ping_at: Timestamp | None = Field(description="When its worker last reported.")
    epoch: int = Field(description="Counts its workers; only the newest may send.")


class WorkerView(ResponseModel):
    """The process that runs a session, from its last report."""

    epoch: int
    started_at: Timestamp | None
    socket: str | None = Field(description="The state of its connection to WhatsApp.")
    lag_ms: int = Field(description="How late its event loop was.")
    rss_bytes: int = Field(description="Its memory.")
    last_traffic_at: Timestamp | None = Field(description="When WhatsApp last sent anything.")


class QueueView(ResponseModel):
    """The queue of a session's phone."""

    waiting: int = Field(description="All messages that wait: now, today and later.")
    now: int
    today: int
    later: int = Field(description="For another day: scheduled, deferred, or beyond today's limit.")
    in_flight: str | None = Field(description="The id of the message that is being sent.")


class SessionDetail(SessionView):
    """A session with its worker and its queue."""

    worker: WorkerView
    queue: QueueView
    ban_ends_at: Timestamp | None


class SessionPage(ResponseModel):
    """A page of sessions, sorted by id."""

    sessions: list[SessionView]
    total: int = Field(description="How many match, on all pages.")
    next: NextCursor


class ProxyView(ResponseModel):
    """A proxy of the pool."""

    id: str = Field(examples=["p_1a2b3c4d5e"])
    url: str = Field(description="Without the password.", examples=["socks5h://user:***@proxy.example.com:1080"])
    status: ProxyStatus
    sessions: list[str] = Field(description="The ids of the sessions that use it.")
    seats: int = Field(description="How many sessions may use it.")
    free: int = Field(description="How many more sessions may use it now.")
    last_check_at: Timestamp | None
    next_check_at: Timestamp | None
    latency_ms: int | None
    last_error: str | None = Field(description="Why the last check failed, for a person.")
    last_failure: str | None = Field(
        description="The same as a stable code, with a detail after a colon where there is one.",
        examples=["NO_ANSWER:5"],
    )
    strikes: int = Field(description="How many sessions reported trouble with it lately.")
    origin: str | None = Field(description="`environment` or `operator`.")
    draining: bool = Field(description="Whether its sessions are being moved away.")
    added_at: Timestamp | None


class Inventory(ResponseModel):
    """Slots of the whole pool."""

    proxies: int
    healthy: int
    seats: int = Field(description="All slots of healthy proxies.")
    free: int
    waiting: int = Field(description="Sessions that wait for a slot.")


class ProxyPage(ResponseModel):
    """A page of proxies, sorted by id."""

    proxies: list[ProxyView]
    total: int = Field(description="How many match, on all pages.")
    next: NextCursor
    inventory: Inventory


def session_view(session: Session, proxy: Proxy | None, now_ms: int, language: str) -> SessionView:
    """Return a session as lists show it."""
    reason = session.reason
    return SessionView(
        session_id=session.id,
        status=session.status,
        reason=reason,
        reason_text=catalogue.text(language, f"session_reason.{reason}") if reason else None,
        needs_person=needs_person(session.status, reason),
        phone=session.phone or None,
        label=session.label or None,
        proxy=proxy.masked if proxy else None,
        proxy_id=session.proxy or None,
        trust=limits.trust(session.first_connected_at or None, now_ms),
        device_name=session.device_name or None,
        created_at=iso(session.created_at),
        changed_at=iso(session.changed_at),
        connected_at=iso(session.connected_at),
        first_connected_at=iso(session.first_connected_at),
        last_ping_at=iso(session.last_ping_at),
        epoch=session.epoch,
    )


async def session_detail(context: Context, session: Session) -> SessionDetail:
    """Return a session with its worker and its queue."""
    proxy = await records.proxy(context.scripts, session.proxy)
    shown = session_view(session, proxy, await context.scripts.now_ms(), context.settings.language)
    return SessionDetail(
        **dict(shown),
        worker=_worker(session),
        queue=await _queue(context, session),
        ban_ends_at=iso(session.ban_ends_at),
    )


def _worker(session: Session) -> WorkerView:
    return WorkerView(
        epoch=session.epoch,
        started_at=iso(session.started_at),
        socket=session.ping_socket or None,
        lag_ms=session.ping_lag_ms,
        rss_bytes=session.ping_rss_bytes,
        last_traffic_at=iso(session.last_traffic_at),
    )


async def _queue(context: Context, session: Session) -> QueueView:
    scripts = context.scripts
    found = await queue_forecast.waiting(scripts, context.settings, session, await scripts.now_ms())
    in_flight = await phone_queues.in_flight(scripts, session.phone)
    return QueueView(
        waiting=found.total, now=found.now, today=found.today, later=found.later, in_flight=in_flight or None
    )


def proxy_view(proxy: Proxy, max_sessions: int) -> ProxyView:
    """Return a proxy as the API shows it."""
    failure = proxy.last_error or None
    return ProxyView(
        id=proxy.id,
        url=proxy.masked,
        status=proxy.status,
        sessions=sorted(proxy.sessions),
        seats=max_sessions,
        free=max(0, max_sessions - len(proxy.sessions)) if proxy.status == ProxyStatus.OK else 0,
        last_check_at=iso(proxy.checked_at),
        next_check_at=iso(proxy.next_check_at),
        latency_ms=proxy.latency_ms,
        last_error=catalogue.proxy_failure(catalogue.DEFAULT, failure) if failure else None,
        last_failure=failure,
        strikes=len(proxy.strikes),
        origin=proxy.origin or None,
        draining=proxy.draining,
        added_at=iso(proxy.added_at),
    )
