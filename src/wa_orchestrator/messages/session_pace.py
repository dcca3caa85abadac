"""The limits and the holds of a session, from its record and the settings.

The gateway estimates with them, the dispatcher releases by them and the pages show them, so they cannot disagree.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.messages.sender_policy import Readiness
from wa_orchestrator.domain.pacing import limits, tag_limits
from wa_orchestrator.domain.pacing.decision import Wait, WaitFor, WaitUntil
from wa_orchestrator.domain.pacing.limits import Override, Pace, Trust
from wa_orchestrator.domain.pacing.tag_limits import Origin, PaceLimit, TagLimit
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.domain.sessions.session import CAN_SEND, comes_back
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.messages import holds as holding
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions.labels import labels_of
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
    """Return the limits of a session, unscaled: the preset by trust, then its tags' limits, then its own."""
    return override_of(session).onto(tagged_pace_of(settings, session, now_ms))


def tagged_pace_of(settings: Settings, session: Session, now_ms: int) -> Pace:
    """Return the limits that a session would have without own ones."""
    return tag_limits.under_tags(settings.pace(trust_of(session, now_ms)), tag_limits_of(session))


def origins_of(settings: Settings, session: Session, now_ms: int) -> Mapping[PaceLimit, Origin]:
    """Return where each limit of a session comes from."""
    preset = settings.pace(trust_of(session, now_ms))
    return tag_limits.origins(preset, tag_limits_of(session), override_of(session))


def override_of(session: Session) -> Override:
    """Return the operator's overrides for a session; unknown names, which a later version may add, are ignored."""
    return _override_from(json.loads(session.limits or "{}"))


def tag_limits_of(session: Session) -> tuple[TagLimit, ...]:
    """Return the limits of a session's tags, as its record has them."""
    return tuple(_tag_limit_from(raw) for raw in json.loads(session.tag_limits or "[]"))


def decode_tag_limit(text: str) -> TagLimit:
    """Return what `encode_tag_limit` wrote."""
    return _tag_limit_from(json.loads(text))


def encode_tag_limit(limit: TagLimit) -> str:
    """Return the limits of a tag as one line of JSON."""
    return json.dumps({"tag": limit.tag, "limits": _stored(limit.override), "raises": limit.raises})


def _tag_limit_from(raw: Mapping[str, Any]) -> TagLimit:
    return TagLimit(raw["tag"], _override_from(raw["limits"]), bool(raw.get("raises")))


def _override_from(raw: Mapping[str, Any]) -> Override:
    known = {name: raw[name] for name in Override.__slots__ if raw.get(name) is not None}
    read: dict[str, Any] = {name: time.fromisoformat(each) if name in _HOURS else each for name, each in known.items()}
    return Override(**read)


def encode_override(override: Override) -> str:
    """Return an operator's overrides as one line of JSON, only those that are set."""
    return json.dumps(_stored(override))


def _stored(override: Override) -> dict[str, Any]:
    given = {name: each for name, each in asdict(override).items() if each is not None}
    return {name: f"{each:%H:%M}" if name in _HOURS else each for name, each in given.items()}


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
    return ["all", f"session:{session.id}", *of_phone, *(f"group:{name}" for name in sorted(labels_of(session)))]


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
