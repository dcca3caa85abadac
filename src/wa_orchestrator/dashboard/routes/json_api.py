"""JSON API with the data of the pages."""

from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet import attention
from wa_orchestrator.dashboard.fleet.snapshot import Row
from wa_orchestrator.dashboard.html.renderer import Renderer, View
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.sessions.session import Reason, State, needs_person
from wa_orchestrator.domain.stream_events import AlertTest, EventType
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import message_counts
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.models import OptionalText, OptionalTimestamp, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup


class DashboardSession(ResponseModel):
    """A session as the dashboard's table shows it."""

    session_id: str
    label: OptionalText
    phone: OptionalText
    status: State
    reason: Reason | None
    reason_text: str | None = Field(description="The reason for a person, with what to do.")
    needs_person: bool
    trust: Trust
    sent_today: int
    limit_today: int
    left_today: int
    queued: int
    held: bool = Field(description="Whether sending is paused.")
    proxy_id: OptionalText
    last_ping_at: OptionalTimestamp
    connected_at: OptionalTimestamp


class DashboardSessions(ResponseModel):
    """All sessions, those that need a person first."""

    sessions: list[DashboardSession]
    total: int


class MessagesToday(ResponseModel):
    """Messages of today, each session by its own calendar."""

    sent: int
    delivered: int
    read: int
    failed: int


class WaitingMessages(ResponseModel):
    """All queues together."""

    waiting: int = Field(description="All messages that wait: now, today and later.")
    now: int
    today: int
    later: int = Field(description="For another day: scheduled, deferred, or beyond today's limit.")


class ProxySlots(ResponseModel):
    """The slots of all proxies."""

    total: int = Field(description="Proxies.")
    healthy: int = Field(description="Proxies in use.")
    slots: int = Field(description="Slots of healthy proxies.")
    free_slots: int
    sessions_waiting: int


class AttentionItem(ResponseModel):
    """Something that needs a person."""

    state: str
    what: str = Field(description="What happened.")
    do: str = Field(description="What to do.")
    href: str = Field(description="The page of the dashboard where it can be done.")


class DashboardStats(ResponseModel):
    """The dashboard's figures."""

    sessions: dict[str, int] = Field(description="`total`, and how many have each status.")
    messages_today: MessagesToday
    messages: dict[str, int] = Field(description="`accepted`, and how many have each status.")
    queue: WaitingMessages
    proxies: ProxySlots
    success_rate: float | None = Field(description="Of today: sent / (sent + failed).")
    alerts: list[AttentionItem]


class QueuedAlert(ResponseModel):
    """The test alert will be sent."""

    queued: Literal[True] = True


class DashboardRoutes(RouteGroup):
    def __init__(self, context: Context, renderer: Renderer) -> None:
        super().__init__(context, "/api/v1/dashboard", "dashboard")
        self._renderer = renderer
        self.get("/sessions")(self.list_dashboard_sessions)
        self.get("/stats")(self.get_dashboard_stats)
        self.post("/test-alert", status_code=202, responses=responses(NOBODY_GETS_ALERTS=409))(self.send_test_alert)

    async def list_dashboard_sessions(self, _caller: ReadCaller) -> DashboardSessions:
        """List all sessions as the dashboard's table shows them."""
        view = await self._look()
        rows = view.snapshot.sorted_rows()
        return DashboardSessions(sessions=[_row(row, view.reason) for row in rows], total=len(rows))

    async def get_dashboard_stats(self, _caller: ReadCaller) -> DashboardStats:
        """Get counts, messages of today, queue, proxies, and what needs attention."""
        view = await self._look()
        snapshot = view.snapshot
        sent, failed = snapshot.today("sent"), snapshot.today("failed")
        return DashboardStats(
            sessions={"total": len(snapshot.rows), **{str(state): snapshot.counts[state] for state in State}},
            messages_today=MessagesToday(**{status: snapshot.today(status) for status in MessagesToday.model_fields}),
            messages=await message_counts.by_status(self._scripts),
            queue=WaitingMessages(waiting=snapshot.waiting.total, **asdict(snapshot.waiting)),
            proxies=ProxySlots(
                total=len(snapshot.proxies),
                healthy=len(snapshot.healthy),
                slots=snapshot.slots,
                free_slots=snapshot.free_slots,
                sessions_waiting=len(snapshot.waiting_for_slot),
            ),
            success_rate=round(sent / (sent + failed), 4) if sent + failed else None,
            alerts=[
                AttentionItem(state=item.state, what=item.what.striptags(), do=item.do.striptags(), href=item.href)
                for item in attention.items(snapshot, view)
            ],
        )

    async def send_test_alert(self, caller: AdminCaller) -> QueuedAlert:
        """Send a test alert to everybody who gets alerts."""
        settings = self._settings
        if settings.telegram_bot_token is None and settings.alert_webhook_url is None:
            raise Refused("NOBODY_GETS_ALERTS", "Set TELEGRAM_BOT_TOKEN or ALERT_WEBHOOK_URL first.", 409)
        await event_stream.emit(self._scripts, EventType.ALERT_TEST, AlertTest(caller.key_id))
        await self._audit(caller, "alert.test", "")
        return QueuedAlert()

    async def _look(self) -> View:
        return await self._renderer.view_as(None, "", self._settings.language)


def _row(row: Row, say: Any) -> DashboardSession:
    session = row.session
    return DashboardSession.of(
        session,
        session_id=row.id,
        reason_text=str(say(session.reason)) if session.reason else None,
        needs_person=needs_person(row.state, session.reason),
        trust=row.trust,
        sent_today=row.sent_today,
        limit_today=row.pace.per_day,
        left_today=row.left_today,
        queued=row.queued,
        held=row.hold is not None,
        proxy_id=session.proxy,
    )
