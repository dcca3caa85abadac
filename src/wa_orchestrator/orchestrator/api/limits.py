"""An operator's own limits for one session. To raise one above the preset is a risk that somebody must take."""

from datetime import time
from typing import Annotated, Any, Self

from fastapi import APIRouter
from pydantic import Field, model_validator

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing import Override
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api import holds
from wa_orchestrator.orchestrator.api.session_reads import find
from wa_orchestrator.session_pace import encode_override, override_of, pace_of, trust_of
from wa_orchestrator.store import audit, keys, queues, sessions
from wa_orchestrator.store.records import Session
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses

_CLOCK = r"^([01]\d|2[0-3]):[0-5]\d$"
Clock = Annotated[str, Field(pattern=_CLOCK, examples=["09:00"])]
#: An hour between two messages is slow enough for anybody; more is a hold.
_LONGEST_PAUSE_MS = 3_600_000


class LimitsBody(RequestModel):
    """What is not given comes from the preset."""

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
        """The same as the domain knows it."""
        span = None if self.pause_min_ms is None or self.pause_max_ms is None else self.pause_max_ms - self.pause_min_ms
        return Override(
            self.per_day,
            self.per_minute,
            self.pause_min_ms,
            span,
            None if self.opens is None else time.fromisoformat(self.opens),
            None if self.closes is None else time.fromisoformat(self.closes),
        )


def router(context: Context) -> APIRouter:
    """Offer `/api/anti-ban/sessions/{id}/limits`."""
    routes = APIRouter(prefix="/api/anti-ban/sessions", tags=["anti-ban"])
    api = _Limits(context)
    path = "/{session_id}/limits"
    routes.get(path, summary="What holds for a session", responses=responses(NO_SUCH_SESSION=404))(api.get)
    routes.put(path, summary="Set own limits", responses=responses(NO_SUCH_SESSION=404, RISK=409))(api.put)
    routes.delete(path, summary="Back to the preset", responses=responses(NO_SUCH_SESSION=404))(api.delete)
    return routes


class _Limits:
    """One method per route."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def get(self, session_id: str, _caller: ReadCaller) -> dict[str, Any]:
        return await _shown(self._context, await find(self._context, session_id))

    async def put(self, session_id: str, body: LimitsBody, caller: AdminCaller) -> dict[str, Any]:
        context = self._context
        session = await find(context, session_id)
        preset = context.settings.pace(trust_of(session, await context.scripts.now_ms()))
        riskier = body.override().raises_above(preset)
        if riskier and not body.acknowledge_risk:
            raise Refused(
                "RISK",
                "This is above the preset and risks a ban. Send acknowledgeRisk: true if you want it.",
                409,
                riskier=list(riskier),
            )
        await sessions.note(context.scripts, session_id, {"limits": encode_override(body.override())})
        wanted = body.model_dump(exclude_none=True, exclude={"acknowledge_risk"})
        await audit.record(
            context.scripts, caller.key_id, "limits.set", session_id, limits=wanted, riskier=list(riskier)
        )
        return await _changed(context, session_id)

    async def delete(self, session_id: str, caller: AdminCaller) -> dict[str, Any]:
        await find(self._context, session_id)
        await self._context.redis.hdel(keys.session(session_id), "limits")
        await audit.record(self._context.scripts, caller.key_id, "limits.delete", session_id)
        return await _changed(self._context, session_id)


async def _changed(context: Context, session_id: str) -> dict[str, Any]:
    session = await find(context, session_id)
    if session.phone:
        await queues.wake(context.scripts, session.phone)
    return await _shown(context, session)


async def _shown(context: Context, session: Session) -> dict[str, Any]:
    now_ms = await context.scripts.now_ms()
    trust = trust_of(session, now_ms)
    override = override_of(session)
    own = {
        "perDay": override.per_day,
        "perMinute": override.per_minute,
        "pauseMinMs": override.pause_base_ms,
        "opens": override.opens and f"{override.opens:%H:%M}",
        "closes": override.closes and f"{override.closes:%H:%M}",
    }
    return {
        "sessionId": session.id,
        "trust": trust,
        "preset": context.settings.pacing_preset,
        "limits": holds.limits(pace_of(context.settings, session, now_ms)),
        "presetLimits": holds.limits(context.settings.pace(trust)),
        "own": {name: value for name, value in own.items() if value is not None},
    }
