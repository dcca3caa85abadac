"""Holds: sending is paused for everything, a group, a session or a phone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wa_orchestrator.domain.access.permissions import EVERYTHING, Only, Reach, reach_of
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.stream_events import HoldChanged, encode
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.record_codec import flat
from wa_orchestrator.timestamps import FOREVER_MS

SERVER = "server"
"""The author of holds after a ban signal."""
WHATEVER: Final = ""
"""Whichever hold is there is to be replaced or lifted."""
NONE: Final = "none"
"""There was no hold."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What is paused (a field of the holds), until when, why and by whom. `session` is the one with the ban signal."""

    field: str
    until_ms: int
    why: str
    by: str
    session: str = ""
    reach: Reach = EVERYTHING
    """What its author reached. Holds from before that was noted count as those of somebody who reaches everything."""

    @property
    def ends(self) -> bool:
        """Whether it ends by itself."""
        return self.until_ms < FOREVER_MS


def holds_from(stored: Mapping[str, str]) -> dict[str, Hold]:
    return {field: _decoded(field, text) for field, text in stored.items()}


def _decoded(field: str, text: str) -> Hold:
    raw = json.loads(text)
    reach = reach_of(raw.get("sessions", ()), raw.get("labels", ()))
    return Hold(field, int(raw["until_ms"]), raw.get("why", ""), raw.get("by", ""), reach=reach)


def _encoded(hold: Hold) -> str:
    record: dict[str, Any] = {"until_ms": hold.until_ms, "why": hold.why, "by": hold.by}
    if isinstance(hold.reach, Only):
        record |= {"sessions": sorted(hold.reach.sessions), "labels": sorted(hold.reach.labels)}
    return json.dumps(record)


async def look(scripts: Scripts, field: str) -> tuple[Hold | None, str]:
    """Return the hold of a field, if it has one, and what to expect there when it is changed."""
    text: Any = await scripts.redis.hget(keys.HOLDS, field)
    return (None, NONE) if text is None else (_decoded(field, text), str(text))


def of_phone(phone: str) -> str:
    """Return the field of a hold on a phone, whichever of its sessions would send."""
    return f"phone:{phone}"


@dataclass(frozen=True, slots=True)
class Placed:
    """The hold is in force."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One that lasts longer was there."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """The hold is gone."""


@dataclass(frozen=True, slots=True)
class NotHeld:
    """There was no hold."""


async def put(
    scripts: Scripts, hold: Hold, *, phones: Sequence[str] = (), expected: str = WHATEVER
) -> Placed | Kept | Changed:
    """Place a hold. A person's hold replaces any other, a signal only extends it.

    `phones` are woken: they may wait for the end of a hold that this one replaces. With `expected`, as `look` returns
    it, nothing but that is replaced.
    """
    who = "signal" if hold.by == SERVER else "person"
    event = _event(hold.field, by=hold.by, session=hold.session, why=hold.why)
    args = [hold.field, hold.until_ms, _encoded(hold), who, json.dumps(phones), expected, *flat(encode(event))]
    return await scripts.ask("place_hold", _KEYS, args, held=Placed, kept=Kept, changed=Changed)


async def lift(
    scripts: Scripts, field: str, *, by: str, phones: Sequence[str] = (), expected: str = WHATEVER
) -> Lifted | NotHeld | Changed:
    """Lift a hold, or only the one that is `expected`, and wake its phones in one step."""
    args = [field, json.dumps(phones), expected, *flat(encode(_event(field, by=by)))]
    return await scripts.ask("lift_hold", _KEYS, args, lifted=Lifted, none=NotHeld, changed=Changed)


_KEYS: Final = (keys.HOLDS, keys.EVENTS, keys.DUE)


def _event(field: str, *, by: str, session: str = "", why: str | None = None) -> HoldChanged:
    scope, _, name = field.partition(":")
    return HoldChanged(
        scope,
        session=SessionId(name if scope == "session" else session),
        by=by,
        group=name if scope == "group" else None,
        phone=Phone(name) if scope == "phone" else None,
        why=why,
    )
