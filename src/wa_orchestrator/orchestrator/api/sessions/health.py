"""Route of a number's health, with the evidence: answers, unread messages, refusals."""

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.number_health import HealthLevel, HealthSignal
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.messages import phone_health
from wa_orchestrator.messages.session_pace import trust_of
from wa_orchestrator.orchestrator.api.sessions.reads import MISSING, SessionId, find
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import LimitedReader
from wa_orchestrator.web.models import OptionalText, OptionalTimestamp, ResponseModel, Timestamp
from wa_orchestrator.web.route_group import RouteGroup


class SignalView(ResponseModel):
    """One signal: `count` of `total`, counted since `since`."""

    signal: HealthSignal = Field(
        description="`ANSWERS`: people who answered, of those who had never written when the phone wrote to them. "
        "`UNREAD`: messages that were not read, of those delivered in the last seven whole days; people can hide that "
        "they read. `REFUSALS`: messages that WhatsApp refused because it does not let the phone write to the person."
    )
    level: HealthLevel = Field(description="`too_few`: too little was counted to tell.")
    count: int
    total: int
    since: OptionalTimestamp


class NumberHealthView(ResponseModel):
    """The health of a session's phone. An estimate: WhatsApp does not say how it judges a number."""

    session_id: str
    phone: OptionalText
    level: HealthLevel = Field(description="`poor` if one signal is. Nothing is stopped or slowed down by it.")
    signals: list[SignalView]
    strangers_in_a_row: int = Field(
        description="People who never wrote that the phone has written to since it last got an answer from one, or "
        "wrote to somebody who had written."
    )
    trust: Trust
    first_connected_at: OptionalTimestamp
    measured_at: Timestamp


class NumberHealthRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        self.get("/{session_id}/health", responses=MISSING)(self.get_session_health)

    async def get_session_health(self, session_id: SessionId, caller: LimitedReader) -> NumberHealthView:
        """Get the health of a session's phone, with what it is judged by."""
        session, now_ms = await find(self._context, session_id, caller.reach), await self._scripts.now_ms()
        health = await phone_health.of_session(self._scripts, self._settings, session, now_ms)
        return NumberHealthView.of(
            session,
            session_id=session.id,
            level=health.level,
            signals=[SignalView.of(each, total=each.of, since=each.since_ms) for each in health.signals],
            strangers_in_a_row=health.strangers,
            trust=trust_of(session, now_ms),
            measured_at=iso(now_ms),
        )
