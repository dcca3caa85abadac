"""Holds: sending is paused for everything, a group, a session or a phone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.stream_events import HoldChanged, encode
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.record_codec import flat
from wa_orchestrator.timestamps import FOREVER_MS

SERVER = "server"
"""The author of holds after a ban signal."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What is paused (a field of the holds), until when, why and by whom. `session` is the one with the ban signal."""

    field: str
    until_ms: int
    why: str
    by: str
    session: str = ""

    @property
    def ends(self) -> bool:
        """Whether it ends by itself."""
        return self.until_ms < FOREVER_MS


def holds_from(stored: Mapping[str, str]) -> dict[str, Hold]:
    found = [(field, json.loads(text)) for field, text in stored.items()]
    return {field: Hold(field, int(raw["until_ms"]), raw.get("why", ""), raw.get("by", "")) for field, raw in found}


def of_phone(phone: str) -> str:
    """Return the field of a hold on a phone, whichever of its sessions would send."""
    return f"phone:{phone}"


async def put(scripts: Scripts, hold: Hold, *, phones: Sequence[str] = ()) -> bool:
    """Place a hold. A person's hold replaces any other, a signal only extends it. Return whether anything changed.

    `phones` are woken: they may wait for the end of a hold that this one replaces.
    """
    record = json.dumps({"until_ms": hold.until_ms, "why": hold.why, "by": hold.by})
    who = "signal" if hold.by == SERVER else "person"
    event = _event(hold.field, by=hold.by, session=hold.session, why=hold.why)
    args = [hold.field, hold.until_ms, record, who, json.dumps(phones), *flat(encode(event))]
    return await scripts.whether("place_hold", [keys.HOLDS, keys.EVENTS, keys.DUE], args, held=True, kept=False)


async def lift(scripts: Scripts, field: str, *, by: str, phones: Sequence[str] = ()) -> bool:
    """Lift a hold and wake its phones in one step; False when there was none."""
    args = [field, json.dumps(phones), *flat(encode(_event(field, by=by)))]
    return await scripts.whether("lift_hold", [keys.HOLDS, keys.EVENTS, keys.DUE], args, lifted=True, none=False)


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
