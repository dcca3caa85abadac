"""Routes of a session's own limits. Raising one above the preset risks a ban, so it must be acknowledged."""

from datetime import time
from typing import Annotated, Self

from pydantic import Field, model_validator

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing.limits import Override, Preset, Trust
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages.session_pace import (
    encode_override,
    origins_of,
    override_of,
    pace_of,
    tagged_pace_of,
    trust_of,
    zone_of,
)
from wa_orchestrator.orchestrator.api.holds import LimitsView, limits_view
from wa_orchestrator.orchestrator.api.sessions.reads import MISSING, SessionId, find
from wa_orchestrator.store import sessions
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.web.auth import LimitedReader, OperateCaller
from wa_orchestrator.web.models import ClockTime, RequestModel, ResponseModel, TimezoneName
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_CLOCK = r"^([01]\d|2[0-3]):[0-5]\d$"
Clock = Annotated[str, Field(pattern=_CLOCK, examples=["09:00"])]
#: Whoever needs more than an hour between two messages places a hold.
_LONGEST_PAUSE_MS = 3_600_000
#: Names of `Override.raises_above`, as the body of a request has them.
API_NAMES = {
    "per_day": ("perDay",),
    "per_minute": ("perMinute",),
    "pause_base_ms": ("pauseMinMs",),
    "pause_range_ms": ("pauseMaxMs",),
    "hours": ("opens", "closes"),
}


class LimitsBody(RequestModel):
    """Own limits of a session. What is missing comes from its tags and the preset."""

    per_day: Annotated[int, Field(ge=1, le=100_000)] | None = None
    per_minute: Annotated[int, Field(ge=1, le=1_000)] | None = None
    pause_min_ms: Annotated[int, Field(ge=0, le=_LONGEST_PAUSE_MS)] | None = None
    pause_max_ms: Annotated[int, Field(ge=0, le=_LONGEST_PAUSE_MS)] | None = None
    opens: Clock | None = None
    closes: Clock | None = None
    acknowledge_risk: bool = Field(False, description="Needed to raise a limit above the preset.")

    @model_validator(mode="after")
    def _pauses_agree(self) -> Self:
        if (self.pause_min_ms is None) != (self.pause_max_ms is None):
            raise ValueError("Give both pauseMinMs and pauseMaxMs, or neither.")
        if self.pause_min_ms is not None and self.pause_max_ms is not None and self.pause_max_ms < self.pause_min_ms:
            raise ValueError("pauseMaxMs is less than pauseMinMs. Give the shorter pause as pauseMinMs.")
        return self

    def override(self) -> Override:
        span = None if self.pause_min_ms is None or self.pause_max_ms is None else self.pause_max_ms - self.pause_min_ms
        return Override(
            self.per_day,
            self.per_minute,
            self.pause_min_ms,
            span,
            None if self.opens is None else time.fromisoformat(self.opens),
            None if self.closes is None else time.fromisoformat(self.closes),
        )


class OwnLimits(ResponseModel):
    """The limits that were set for this session; the others are missing."""

    per_day: int | None = None
    per_minute: int | None = None
    pause_min_ms: int | None = None
    pause_max_ms: int | None = None
    opens: ClockTime | None = None
    closes: ClockTime | None = None


class LimitOrigins(ResponseModel):
    """Where each limit comes from: `own`, `tag:<name>` or `preset`."""

    per_day: str = Field(examples=["tag:vip"])
    per_minute: str = Field(examples=["preset"])
    pause: str = Field(examples=["own"])
    hours: str = Field(examples=["preset"])


class TimezoneBody(RequestModel):
    """The zone of a session's hours and days."""

    timezone: TimezoneName | None = Field(description="Null: the installation's, `TIMEZONE`.")


class SessionLimits(ResponseModel):
    """The limits of a session, and what they are made of."""

    session_id: str
    trust: Trust
    preset: Preset
    limits: LimitsView = Field(description="What is in force.")
    preset_limits: LimitsView = Field(description="What the preset says, without its own limits and its tags'.")
    tag_limits: LimitsView = Field(description="What would be in force without its own limits.")
    own: OwnLimits
    origins: LimitOrigins
    timezone: str = Field(description="The zone of its hours and days.", examples=["Asia/Jerusalem"])


def own_limits(override: Override) -> OwnLimits:
    """Return what an operator set, as a response has it."""
    pause_ms, span_ms = override.pause_base_ms, override.pause_range_ms
    longest_ms = None if pause_ms is None or span_ms is None else pause_ms + span_ms
    return OwnLimits.of(override, pause_min_ms=pause_ms, pause_max_ms=longest_ms)


class LimitRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/anti-ban/sessions", "anti-ban")
        path, risk = "/{session_id}/limits", responses(NO_SUCH_SESSION=404, RISK=409)
        self.get(path, responses=MISSING, response_model_exclude_none=True)(self.get_limits)
        self.put(path, responses=risk, response_model_exclude_none=True)(self.set_limits)
        self.put("/{session_id}/timezone", responses=MISSING, response_model_exclude_none=True)(self.set_timezone)
        self.delete(path, responses=MISSING, response_model_exclude_none=True)(self.reset_limits)

    async def get_limits(self, session_id: SessionId, caller: LimitedReader) -> SessionLimits:
        """Get the limits of a session."""
        session, now_ms = await find(self._context, session_id, caller.reach), await self._scripts.now_ms()
        trust, override = trust_of(session, now_ms), override_of(session)
        came_from = origins_of(self._settings, session, now_ms)
        return SessionLimits(
            session_id=session.id,
            trust=trust,
            preset=Preset(self._settings.pacing_preset),
            limits=limits_view(pace_of(self._settings, session, now_ms)),
            preset_limits=limits_view(self._settings.pace(trust)),
            tag_limits=limits_view(tagged_pace_of(self._settings, session, now_ms)),
            own=own_limits(override),
            origins=LimitOrigins(**{name: f"{each.kind}:{each.tag}".rstrip(":") for name, each in came_from.items()}),
            timezone=zone_of(self._settings, session).key,
        )

    async def set_limits(self, session_id: SessionId, body: LimitsBody, caller: OperateCaller) -> SessionLimits:
        """Set own limits for a session."""
        session = await find(self._context, session_id)
        preset = self._settings.pace(trust_of(session, await self._scripts.now_ms()))
        riskier = [each for name in body.override().raises_above(preset) for each in API_NAMES[name]]
        if riskier and not body.acknowledge_risk:
            text = "These limits are above the preset and risk a ban. Send acknowledgeRisk: true to accept that."
            raise Refused("RISK", text, 409, riskier=riskier)
        await sessions.change(self._scripts, session_id, SessionChanges(limits=encode_override(body.override())))
        wanted = body.model_dump(exclude_none=True, exclude={"acknowledge_risk"})
        await self._audit(caller, "limits.set", session_id, limits=wanted, riskier=riskier)
        return await self.get_limits(session_id, caller)

    async def set_timezone(self, session_id: SessionId, body: TimezoneBody, caller: OperateCaller) -> SessionLimits:
        """Set the time zone of a session's hours and days."""
        await find(self._context, session_id)
        zone = body.timezone or ""
        await sessions.change(self._scripts, session_id, SessionChanges(timezone=zone))
        await self._audit(caller, "timezone.set", session_id, timezone=zone)
        return await self.get_limits(session_id, caller)

    async def reset_limits(self, session_id: SessionId, caller: OperateCaller) -> SessionLimits:
        """Delete the own limits of a session: its tags' limits and the preset are in force again."""
        await find(self._context, session_id)
        await sessions.change(self._scripts, session_id, SessionChanges(limits=""))
        await self._audit(caller, "limits.delete", session_id)
        return await self.get_limits(session_id, caller)
