"""The limits and the holds of a session, from its record and the settings.

The gateway estimates with them, the dispatcher releases by them and the pages show them, so they cannot disagree.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.pacing import limits
from wa_orchestrator.domain.pacing.decision import Wait, WaitFor, WaitUntil
from wa_orchestrator.domain.pacing.limits import Override, Pace, Trust
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.domain.routing import Readiness
from wa_orchestrator.domain.session import CAN_SEND, comes_back
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.messages import holds as holding
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import FOREVER_MS

#: The `why` of a hold that a ban signal has set.
BAN_SIGNAL = "BAN_SIGNAL"
_HOURS = frozenset({"opens", "closes"})

Holds = Mapping[str, Hold]


def trust_of(session: Session, now_ms: int) -> Trust:
    """Return how far a session is trusted, by its age since it first connected."""
    return limits.trust(session.first_connected_at or None, now_ms)


def zone_of(settings: Settings, session: Session) -> ZoneInfo:
    """Return the zone of a session's hours and days: its own, or the installation's."""
    return ZoneInfo(session.timezone or settings.timezone)


def day_of(settings: Settings, session: Session | None, at_ms: int) -> str:
    """Return the calendar day, in the zone of the session, under which an instant is counted."""
    return day_in(settings, session.timezone if session else "", at_ms)


def day_in(settings: Settings, timezone: str, at_ms: int) -> str:
    """Return the calendar day in a session's own time zone, or the installation's ('')."""
    zone = ZoneInfo(timezone or settings.timezone)
    return f"{datetime.fromtimestamp(at_ms / 1000, tz=zone):%Y%m%d}"


def pace_of(settings: Settings, session: Session, now_ms: int) -> Pace:
    """Return the limits of a session, unscaled: the preset by trust, with the operator's overrides."""
    return override_of(session).onto(settings.pace(trust_of(session, now_ms)))


def override_of(session: Session) -> Override:
    """Return the operator's overrides for a session; unknown names, which a later version may add, are ignored."""
    raw: dict[str, Any] = json.loads(session.limits or "{}")
    known = {name: raw[name] for name in Override.__slots__ if raw.get(name) is not None}
    read: dict[str, Any] = {name: time.fromisoformat(each) if name in _HOURS else each for name, each in known.items()}
    return Override(**read)


def encode_override(override: Override) -> str:
    """Return an operator's overrides as one line of JSON, only those that are set."""
    given = {name: each for name, each in asdict(override).items() if each is not None}
    return json.dumps({name: f"{each:%H:%M}" if name in _HOURS else each for name, each in given.items()})


def at_scale(settings: Settings, pace: Pace) -> Pace:
    """Return the same limits with time running TIME_SCALE as fast; days and hours stay as they are."""
    if settings.time_scale == 1.0:
        return pace
    return replace(
        pace,
        per_minute=max(1, int(pace.per_minute * settings.time_scale)),
        pause_base_ms=int(settings.scaled(pace.pause_base_ms)),
        pause_range_ms=int(settings.scaled(pace.pause_range_ms)),
        closing_ms=int(settings.scaled(pace.closing_ms)),
    )


def hold_fields(session: Session) -> list[str]:
    """Return the fields of the holds hash that concern a session."""
    of_phone = [holding.of_phone(session.phone)] if session.phone else []
    return ["all", f"session:{session.id}", *of_phone, *([f"group:{session.label}"] if session.label else [])]


def holds_on(holds: Holds, session: Session, now_ms: int) -> tuple[Wait, ...]:
    """Return the holds that concern a session and are not over, as waits of its messages."""
    found = [holds[field] for field in hold_fields(session) if field in holds]
    return tuple(
        wait_until(hold.until_ms, WaitReason.BANNED_HOLD if hold.why == BAN_SIGNAL else WaitReason.HELD)
        for hold in found
        if hold.until_ms > now_ms
    )


def wait_until(until_ms: int, because: WaitReason) -> Wait:
    """Return a wait that ends at `until_ms`, or one without an end for `FOREVER_MS`."""
    return WaitFor(because) if until_ms >= FOREVER_MS else WaitUntil(until_ms, because)


def readiness_of(session: Session, holds: Holds, now_ms: int) -> Readiness:
    """Return whether a session can send now, as far as its record and the holds say."""
    return readiness_with(session, holds_on(holds, session, now_ms))


def readiness_with(session: Session, held: Sequence[Wait]) -> Readiness:
    """Return whether a session that is held by these can send now."""
    if not session.phone or any(wait.because is WaitReason.BANNED_HOLD for wait in held):
        return Readiness.OFFLINE
    if session.status not in CAN_SEND:
        return Readiness.RETURNING if comes_back(session.status, session.reason) else Readiness.OFFLINE
    return Readiness.HELD if held else Readiness.READY
