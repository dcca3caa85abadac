"""The pace of a session as it stands now: its limits, its situation, and when a message will leave.

The gateway estimates with this, the dispatcher releases by it, and the pages show it; so they cannot disagree.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from wa_orchestrator.domain import pacing
from wa_orchestrator.domain.pacing import Because, Eta, Hold, Override, Pace, ReachoutLock, Situation, Trust
from wa_orchestrator.domain.routing import Readiness
from wa_orchestrator.domain.session import CAN_SEND
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import holds as holding
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message, PhonePace, Session
from wa_orchestrator.timestamps import FOREVER_MS

#: The `why` of a hold that a ban signal has set.
BAN_SIGNAL = "BAN_SIGNAL"
#: What sending takes as long as nobody has measured it for a phone: a short text is typed, and WhatsApp answers.
FIRST_SERVICE_MS = 1_500
_HOURS = frozenset({"opens", "closes"})

Holds = Mapping[str, Mapping[str, Any]]


def trust_of(session: Session, now_ms: int) -> Trust:
    """How far a session is trusted, by its age since it first connected."""
    return pacing.trust(session.first_connected_at or None, now_ms)


def zone_of(settings: Settings, session: Session) -> ZoneInfo:
    """The zone of a session's hours and days: its own, or the installation's."""
    return ZoneInfo(session.fields.get("timezone") or settings.timezone)


def day_of(settings: Settings, session: Session | None, at_ms: int) -> str:
    """The calendar day, where the session is (or was), under which an instant is counted."""
    zone = zone_of(settings, session) if session else ZoneInfo(settings.timezone)
    return f"{datetime.fromtimestamp(at_ms / 1000, tz=zone):%Y%m%d}"


def pace_of(settings: Settings, session: Session, now_ms: int) -> Pace:
    """The limits that hold for a session, as a person reads them: the preset by trust, with the operator's numbers."""
    return override_of(session).onto(settings.pace(trust_of(session, now_ms)))


def override_of(session: Session) -> Override:
    """The operator's own numbers for a session; all unset where there are none."""
    return decode_override(session.fields.get("limits") or "{}")


def decode_override(text: str) -> Override:
    """Read what `encode_override` wrote; a name that a later version may add is left aside."""
    raw: dict[str, Any] = json.loads(text)
    known = {name: raw[name] for name in Override.__slots__ if raw.get(name) is not None}
    read: dict[str, Any] = {name: time.fromisoformat(each) if name in _HOURS else each for name, each in known.items()}
    return Override(**read)


def encode_override(override: Override) -> str:
    """Write an operator's numbers as one line of JSON, only those that are set."""
    told = {name: each for name, each in asdict(override).items() if each is not None}
    return json.dumps({name: f"{each:%H:%M}" if name in _HOURS else each for name, each in told.items()})


def at_scale(settings: Settings, pace: Pace) -> Pace:
    """The same limits with time running TIME_SCALE as fast; days and hours stay what they are."""
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
    """The fields of the holds that concern a session."""
    of_phone = [holding.of_phone(session.phone)] if session.phone else []
    return ["all", f"session:{session.id}", *of_phone, *([f"group:{session.label}"] if session.label else [])]


def holds_on(holds: Holds, session: Session, now_ms: int) -> tuple[Hold, ...]:
    """The holds that concern a session and are not over."""
    found = [holds[field] for field in hold_fields(session) if field in holds]
    return tuple(
        Hold(
            Because.BANNED_HOLD if hold.get("why") == BAN_SIGNAL else Because.HELD,
            None if hold["until_ms"] >= FOREVER_MS else int(hold["until_ms"]),
        )
        for hold in found
        if hold["until_ms"] > now_ms
    )


def readiness_of(session: Session, holds: Holds, now_ms: int) -> Readiness:
    """Return whether a session can send now, as far as its record and the holds say."""
    if session.status not in CAN_SEND or not session.phone:
        return Readiness.OFFLINE
    return Readiness.HELD if holds_on(holds, session, now_ms) else Readiness.READY


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of a phone, for the pure functions below."""

    now_ms: int
    phone: PhonePace
    holds: Holds


@dataclass(frozen=True, slots=True)
class Aim:
    """What an estimate needs to know of a message."""

    contact_is_new: bool = False
    scheduled_for_ms: int = 0


def situation_from(settings: Settings, session: Session, facts: Facts, aim: Aim = Aim()) -> tuple[Pace, Situation]:
    """The scaled limits of a session and its situation, from what was read."""
    pace = at_scale(settings, pace_of(settings, session, facts.now_ms))
    lock_until = facts.phone.lock_until
    lock = ReachoutLock(None if lock_until >= FOREVER_MS else lock_until) if lock_until > facts.now_ms else None
    situation = Situation(
        zone=zone_of(settings, session),
        sent=facts.phone.sent,
        silent_until_ms=_silent_until(pace, facts),
        burst_until_ms=facts.phone.burst_until,
        holds=holds_on(facts.holds, session, facts.now_ms),
        online=session.status == "connected",
        lock=lock,
        contact_is_new=aim.contact_is_new,
        scheduled_for_ms=aim.scheduled_for_ms,
    )
    return pace, situation


def _silent_until(pace: Pace, facts: Facts) -> int:
    """The end of the pause; while a message is in flight, when its pause will have ended as far as one can know."""
    if not facts.phone.in_flight or not facts.phone.sent:
        return facts.phone.silent_until
    released_ms = facts.phone.sent[-1]
    lands_at_ms = max(facts.now_ms, released_ms + facts.phone.service_ms)
    return lands_at_ms + pace.mean_pause_after_ms(released_ms, facts.phone.burst_until)


def service_of(settings: Settings, phone: PhonePace) -> int:
    """How long sending one message takes this phone, measured or guessed."""
    return phone.service_ms or int(settings.scaled(FIRST_SERVICE_MS))


def estimate(settings: Settings, session: Session, facts: Facts, *, ahead: int, aim: Aim = Aim()) -> Eta:
    """When a message leaves that has `ahead` others of its phone before it; one in flight counts as one of them."""
    pace, situation = situation_from(settings, session, facts, aim)
    waiting = ahead - 1 if facts.phone.in_flight else ahead
    estimated = pacing.eta(pace, situation, max(1, waiting + 1), facts.now_ms, service_of(settings, facts.phone))
    if facts.phone.in_flight and estimated.because == Because.PAUSE:
        return replace(estimated, because=Because.IN_FLIGHT)
    return estimated


async def facts_of(scripts: Scripts, session: Session) -> Facts:
    """Read what the pace of a session depends on."""
    now_ms = await scripts.now_ms()
    since_ms = now_ms - 2 * pacing.DAY_MS
    return Facts(
        now_ms, await records.phone_pace(scripts, session.phone, since_ms=since_ms), await records.holds(scripts)
    )


async def is_new_contact(scripts: Scripts, phone: str, recipient: str) -> bool:
    """Whether this phone has no open chat with a recipient."""
    return not await scripts.redis.sismember(keys.contacts(phone), recipient)


async def situation(scripts: Scripts, settings: Settings, session: Session, message: Message) -> tuple[Pace, Situation]:
    """The scaled limits of a session and its situation with respect to a message that waits."""
    facts = await facts_of(scripts, session)
    aim = Aim(await is_new_contact(scripts, session.phone, message.to), message.due_at)
    return situation_from(settings, session, facts, aim)


async def waits_for(scripts: Scripts, settings: Settings, session: Session, message: Message) -> Eta:
    """Why a waiting message has not left, and when it will."""
    facts = await facts_of(scripts, session)
    rank: Any = await scripts.redis.zrank(keys.queue(message.phone), message.id)
    aim = Aim(await is_new_contact(scripts, session.phone, message.to), message.due_at)
    return estimate(settings, session, facts, ahead=(rank or 0) + bool(facts.phone.in_flight), aim=aim)
