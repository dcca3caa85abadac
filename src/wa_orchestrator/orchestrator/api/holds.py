"""Routes of holds (sending paused for a session, a group, a phone or everything) and of the presets of limits."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field, model_validator

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import may_overrule
from wa_orchestrator.domain.pacing.limits import PRESETS, Pace, Preset, Trust
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages.session_pace import hold_fields
from wa_orchestrator.orchestrator.api.sessions.reads import find
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.messages import holds as holding
from wa_orchestrator.store.messages.holds import WHATEVER, Hold, Kept, Lifted, NotHeld, Placed
from wa_orchestrator.store.sessions.labels import labels_of
from wa_orchestrator.timestamps import FOREVER_MS
from wa_orchestrator.web.auth import Caller, LimitedOperator, ReadCaller
from wa_orchestrator.web.ids import PRINTABLE
from wa_orchestrator.web.models import ClockTime, OptionalText, OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

HoldId = Annotated[str, Path(pattern=PRINTABLE, description="`id` of the hold.", examples=["session:worker_1"])]
_TARGET = re.compile(r"all|(session|group|phone):(.{1,64})")


class HoldBody(RequestModel):
    """What to pause: a session, a group (a label or a tag) or, with `all`, everything."""

    session_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    group: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    all: bool = False
    until_ms: Annotated[int, Field(ge=0)] | None = Field(
        None, alias="until", description="Milliseconds since 1970. Default: until the hold is lifted."
    )
    why: Annotated[str, Field(max_length=200)] = ""

    @model_validator(mode="after")
    def _one_target(self) -> "HoldBody":
        if sum((self.session_id is not None, self.group is not None, self.all)) != 1:
            raise ValueError("Give exactly one of sessionId, group and all.")
        return self

    @property
    def field(self) -> str:
        if self.all:
            return "all"
        return f"group:{self.group}" if self.group is not None else f"session:{self.session_id}"


class LimitsView(ResponseModel):
    """How fast a phone may send."""

    per_day: int
    per_minute: int
    pause_min_ms: int = Field(description="The shortest pause between two messages.")
    pause_max_ms: int
    opens: ClockTime = Field(description="Messages leave from this time of day on.", examples=["09:00"])
    closes: ClockTime = Field(examples=["21:00"])


class PresetsResponse(ResponseModel):
    """The limits by preset and by trust."""

    preset: Preset = Field(description="The preset of the settings.")
    in_force: dict[Trust, LimitsView] = Field(description="With the changes that the settings make to the preset.")
    presets: dict[Preset, dict[Trust, LimitsView]]


class HoldView(ResponseModel):
    """A pause of sending."""

    id: str = Field(description="Lift it by this name.", examples=["all", "session:worker_1", "group:support"])
    scope: str = Field(description="`all`, `session`, `group` or `phone`.")
    name: OptionalText = Field(description="The session, group or phone.")
    until: OptionalTimestamp = Field(description="Null: until it is lifted.")
    why: str
    by: str = Field(description="The API key or person that placed it; `server` after a ban.")


class HoldsResponse(ResponseModel):
    """All holds that are in force."""

    holds: list[HoldView]


class LiftedHold(ResponseModel):
    """Sending resumes."""

    lifted: Literal[True] = True


class HoldRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/anti-ban", "anti-ban")
        refusals = responses(HOLD_OF_OTHERS=403, NO_SUCH_SESSION=404, NO_SUCH_GROUP=404, PAST=422)
        self.get("/presets")(self.list_presets)
        self.get("/holds")(self.list_holds)
        self.post("/holds", status_code=201, responses=refusals)(self.place_hold)
        self.delete("/holds/{target}", responses=responses(HOLD_OF_OTHERS=403, NO_SUCH_HOLD=404))(self.lift_hold)

    async def list_presets(self, _caller: ReadCaller) -> PresetsResponse:
        """List the built-in limits, and those that are in force."""
        settings = self._settings
        return PresetsResponse(
            preset=Preset(settings.pacing_preset),
            in_force={trust: limits_view(settings.pace(trust)) for trust in Trust},
            presets={
                name: {trust: limits_view(pace) for trust, pace in paces.items()} for name, paces in PRESETS.items()
            },
        )

    async def list_holds(self, _caller: ReadCaller) -> HoldsResponse:
        """List what is paused, why and until when."""
        now_ms = await self._scripts.now_ms()
        found = await records.holds(self._scripts)
        return HoldsResponse(holds=[_view(found[field]) for field in sorted(found) if found[field].until_ms > now_ms])

    async def place_hold(self, body: HoldBody, caller: LimitedOperator) -> HoldView:
        """Pause sending. A key that is limited to some sessions pauses single ones."""
        _require_session(caller, body.field)
        await self._must_exist(body, caller)
        until_ms = FOREVER_MS if body.until_ms is None else body.until_ms
        if until_ms <= await self._scripts.now_ms():
            raise Refused("PAST", "`until` has passed. Give a later instant, or none to pause until lifted.", 422)
        put = Hold(body.field, until_ms, body.why or "OPERATOR", caller.key_id, reach=caller.reach)
        await self._put(put, caller, await self._affected(body.field))
        await self._audit(caller, "hold.add", body.field, until_ms=until_ms, why=body.why)
        return _view(put)

    async def lift_hold(self, target: HoldId, caller: LimitedOperator) -> LiftedHold:
        """Resume sending. May be repeated: a hold that is gone is lifted."""
        if not _TARGET.fullmatch(target):
            names = "all, session:<id>, group:<label or tag> or phone:<digits>"
            text = f"There is no hold with this id ({names}). GET /api/anti-ban/holds lists them."
            raise Refused("NO_SUCH_HOLD", text, 404)
        _require_session(caller, target)
        if caller.is_limited:
            await find(self._context, target.partition(":")[2], caller.reach)
        await self._lift(target, caller, await self._affected(target))
        await self._audit(caller, "hold.lift", target)
        return LiftedHold()

    @compare_and_set("Hold {hold.field}")
    async def _put(self, hold: Hold, caller: Caller, phones: Sequence[str]) -> Placed | Kept | Changed:
        expected = await self._expected(hold.field, caller)
        return await holding.put(self._scripts, hold, phones=phones, expected=expected)

    @compare_and_set("Hold {target}")
    async def _lift(self, target: str, caller: Caller, phones: Sequence[str]) -> Lifted | NotHeld | Changed:
        expected = await self._expected(target, caller)
        return await holding.lift(self._scripts, target, by=caller.key_id, phones=phones, expected=expected)

    async def _expected(self, field: str, caller: Caller) -> str:
        """Return which hold the caller may change; raises 403 if the one that is in force is not theirs to change."""
        if not caller.is_limited:
            return WHATEVER
        hold, expected = await holding.look(self._scripts, field)
        if hold is None or hold.until_ms <= await self._scripts.now_ms() or hold.by == caller.key_id:
            return expected
        if not may_overrule(caller.reach, hold.reach, field.partition(":")[2]):
            raise _of_others()
        return expected

    async def _must_exist(self, body: HoldBody, caller: Caller) -> None:
        """Refuse an unknown name: after a typo people would believe that sending has stopped."""
        if body.session_id is not None:
            await find(self._context, body.session_id, caller.reach)
        if body.group is not None:
            found = await records.sessions(self._scripts)
            groups = {name for session in found for name in labels_of(session)}
            if body.group not in groups:
                known = ", ".join(sorted(groups)[:10]) or "none yet"
                text = f"No session has the label or tag {body.group}. Known: {known}."
                raise Refused("NO_SUCH_GROUP", text, 404)

    async def _affected(self, field: str) -> list[str]:
        sessions = await records.sessions(self._scripts)
        return sorted({session.phone for session in sessions if session.phone and field in hold_fields(session)})


def _require_session(caller: Caller, target: str) -> None:
    """Refuse a limited caller whatever is more than a session. The hold after a ban is on a phone, and not for them."""
    if caller.is_limited and not target.startswith("session:"):
        text = "This API key is limited to some sessions: it pauses and resumes those, one at a time."
        raise Refused("KEY_LIMITED", text, 403)


def _of_others() -> Refused:
    text = "This hold was placed by somebody who reaches more sessions. A key or a person without a limit can lift it."
    return Refused("HOLD_OF_OTHERS", text, 403)


def limits_view(pace: Pace) -> LimitsView:
    pause_ms = pace.pause_base_ms
    return LimitsView.of(pace, pause_min_ms=pause_ms, pause_max_ms=pause_ms + pace.pause_range_ms)


def _view(hold: Hold) -> HoldView:
    scope, _, name = hold.field.partition(":")
    return HoldView.of(hold, id=hold.field, scope=scope, name=name, until=hold.until_ms)
