"""Holds: sending paused by a person, for one session, a group or everything, or by itself for a banned phone."""

import re
from typing import Annotated, Any

import structlog
from fastapi import APIRouter
from pydantic import Field, model_validator

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing import PRESETS, Pace
from wa_orchestrator.errors import Refused
from wa_orchestrator.session_pace import BAN_SIGNAL, hold_fields
from wa_orchestrator.store import audit, queues, records
from wa_orchestrator.store import holds as holding
from wa_orchestrator.store.holds import Hold
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import FOREVER_MS, iso
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses

_TARGET = re.compile(r"all|(session|group|phone):(.{1,64})")

log = structlog.get_logger(__name__)


class HoldBody(RequestModel):
    """What is paused: a session, a group (a label) or, with `all`, everything."""

    session_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    group: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    all: bool = False
    until_ms: Annotated[int, Field(ge=0)] | None = Field(
        None, alias="until", description="Milliseconds since 1970; without it the hold lasts until it is lifted."
    )
    why: Annotated[str, Field(max_length=200)] = ""

    @model_validator(mode="after")
    def _one_target(self) -> "HoldBody":
        if sum((self.session_id is not None, self.group is not None, self.all)) != 1:
            raise ValueError("Give exactly one of sessionId, group and all.")
        return self

    @property
    def field(self) -> str:
        """The field of the holds that this is."""
        if self.all:
            return "all"
        return f"group:{self.group}" if self.group is not None else f"session:{self.session_id}"


def router(context: Context) -> APIRouter:
    """Offer `/api/anti-ban/holds` and `/api/anti-ban/presets`."""
    routes = APIRouter(prefix="/api/anti-ban", tags=["anti-ban"])
    api = _AntiBan(context)
    refusals = responses(NO_SUCH_SESSION=404, NO_SUCH_GROUP=404, PAST=422)
    routes.get("/presets", summary="The built-in limits, and those that hold")(api.presets)
    routes.get("/holds", summary="What is paused, why and until when")(api.holds)
    routes.post("/holds", status_code=201, summary="Pause", responses=refusals)(api.hold)
    routes.delete("/holds/{target}", summary="Go on", responses=responses(NO_SUCH_HOLD=404))(api.lift)
    return routes


class _AntiBan:
    """One method per route."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def presets(self, _caller: ReadCaller) -> dict[str, Any]:
        settings = self._context.settings
        built_in = {name: {trust: limits(pace) for trust, pace in paces.items()} for name, paces in PRESETS.items()}
        in_force = {trust: limits(settings.pace(trust)) for trust in PRESETS[next(iter(PRESETS))]}
        return {"preset": settings.pacing_preset, "inForce": in_force, "presets": built_in}

    async def holds(self, _caller: ReadCaller) -> dict[str, Any]:
        now_ms = await self._context.scripts.now_ms()
        found = await records.holds(self._context.scripts)
        return {"holds": [_shown(field, hold) for field, hold in sorted(found.items()) if hold["until_ms"] > now_ms]}

    async def hold(self, body: HoldBody, caller: AdminCaller) -> dict[str, Any]:
        context = self._context
        await _must_exist(context, body)
        until_ms = FOREVER_MS if body.until_ms is None else body.until_ms
        if until_ms <= await context.scripts.now_ms():
            raise Refused("PAST", "`until` is over already. Give a later instant, or none to pause until lifted.", 422)
        put = Hold(body.field, until_ms, body.why or "OPERATOR", caller.key_id)
        await holding.put(context.scripts, put)
        await audit.record(context.scripts, caller.key_id, "hold.add", body.field, until_ms=until_ms, why=body.why)
        await wake_held(context, body.field)
        return _shown(body.field, {"until_ms": put.until_ms, "why": put.why, "by": put.by})

    async def lift(self, target: str, caller: AdminCaller) -> dict[str, bool]:
        context = self._context
        if not _TARGET.fullmatch(target) or not await holding.lift(context.scripts, target, by=caller.key_id):
            names = "all, session:<id>, group:<label> or phone:<digits>"
            text = f"Nothing is paused under this name: {names}. GET /api/anti-ban/holds lists what is."
            raise Refused("NO_SUCH_HOLD", text, 404)
        await audit.record(context.scripts, caller.key_id, "hold.lift", target)
        await wake_held(context, target)
        return {"lifted": True}


async def _must_exist(context: Context, body: HoldBody) -> None:
    """Refuse a name that nobody has: after a slip of the pen people would believe that sending has stopped."""
    if body.session_id is not None and not await records.session(context.scripts, body.session_id):
        raise Refused("NO_SUCH_SESSION", f"There is no session {body.session_id}. GET /api/sessions lists them.", 404)
    if body.group is not None:
        groups = {session.label for session in await records.sessions(context.scripts) if session.label}
        if body.group not in groups:
            known = ", ".join(sorted(groups)[:10]) or "none yet"
            raise Refused("NO_SUCH_GROUP", f"No session has the label {body.group}. There are: {known}.", 404)


def limits(pace: Pace) -> dict[str, Any]:
    """Limits as people read them."""
    return {
        "perDay": pace.per_day,
        "perMinute": pace.per_minute,
        "pauseMinMs": pace.pause_base_ms,
        "pauseMaxMs": pace.pause_base_ms + pace.pause_range_ms,
        "opens": f"{pace.opens:%H:%M}",
        "closes": f"{pace.closes:%H:%M}",
    }


def _shown(field: str, hold: dict[str, Any]) -> dict[str, Any]:
    scope, _, name = field.partition(":")
    until = iso(int(hold["until_ms"]))
    return {"id": field, "scope": scope, "name": name or None, "until": until, "why": hold["why"], "by": hold["by"]}


async def wake_held(context: Context, field: str) -> None:
    """Let a dispatcher look anew at the phones that a hold concerns."""
    sessions = await records.sessions(context.scripts)
    phones = {session.phone for session in sessions if session.phone and field in hold_fields(session)}
    await queues.wake(context.scripts, *sorted(phones))


async def hold_after_ban(context: Context, session: Session, *, until_ms: int | None = None) -> None:
    """Pause a phone that WhatsApp has banned, whichever session speaks for it now or later. A person lifts it."""
    if not session.phone:
        return  # nothing can be queued for it
    field = holding.of_phone(session.phone)
    hold = Hold(field, until_ms or FOREVER_MS, BAN_SIGNAL, holding.SERVER, session.id)
    if await holding.put(context.scripts, hold):
        log.error("session.held_after_ban", session=session.id, until_ms=until_ms)
