"""When the messages of a phone's queue leave, and what each waits for: the readers around `domain.pacing.Forecast`."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from wa_orchestrator.domain.messages.message import WAITING, MessageStatus
from wa_orchestrator.domain.pacing.backlog import Backlog, split_backlog
from wa_orchestrator.domain.pacing.decision import Situation, WaitFor, WaitUntil
from wa_orchestrator.domain.pacing.forecast import Eta, Forecast, Turn
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.domain.pacing.limits import DAY_MS, Pace
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.domain.recipient import is_group
from wa_orchestrator.domain.sessions.session import CAN_SEND
from wa_orchestrator.messages.session_pace import Holds, at_scale, holds_on, pace_of, wait_until, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts, phone_queues
from wa_orchestrator.store.messages.phone_queues import QueuePage
from wa_orchestrator.store.records import Message, PhonePace, Session

#: How long sending takes as long as it was not measured for a phone: a short text is typed, and WhatsApp answers.
FIRST_SERVICE_MS = 1_500
#: WhatsApp lets a phone write to new contacts.
NO_LIMIT: Final = WaitUntil(0, WaitReason.NOTHING)


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of a session's phone for a forecast."""

    now_ms: int
    phone: PhonePace
    holds: Holds


async def facts_of(scripts: Scripts, session: Session) -> Facts:
    """Read what a forecast for a session depends on."""
    now_ms = await scripts.now_ms()
    since_ms = now_ms - 2 * DAY_MS
    phone = await records.phone_pace(scripts, session.phone, since_ms=since_ms)
    return Facts(now_ms, phone, await records.holds(scripts))


def forecast_of(settings: Settings, session: Session, facts: Facts, *, share: float = 1.0) -> Forecast:
    """Return the forecast of the queue of a session's phone, for messages that may use a share of its day."""
    pace, phone = at_scale(settings, pace_of(settings, session, facts.now_ms)), facts.phone
    pace = replace(pace, per_day=max(1, int(pace.per_day * share)))
    waits = holds_on(facts.holds, session, facts.now_ms)
    if session.status not in CAN_SEND:
        waits = (*waits, WaitFor(WaitReason.SESSION_OFFLINE))
    situation = Situation(
        zone_of(settings, session),
        sent=phone.sent,
        silent_until_ms=_silent_until(pace, facts),
        burst_until_ms=phone.burst_until,
        waits=waits,
    )
    service_ms = phone.service_ms or int(settings.scaled(FIRST_SERVICE_MS))
    return Forecast(pace, situation, facts.now_ms, service_ms=service_ms, in_flight=bool(phone.in_flight))


def _silent_until(pace: Pace, facts: Facts) -> int:
    """Return the end of the pause; while a message is in flight, the estimated end of the pause after it."""
    phone = facts.phone
    if not phone.in_flight or not phone.sent:
        return phone.silence_end(facts.now_ms)
    released_ms = phone.sent[-1]
    done_ms = max(facts.now_ms, released_ms + phone.service_ms)
    return done_ms + pace.mean_pause_after_ms(released_ms, phone.burst_until)


async def message_eta(
    scripts: Scripts, forecast: Forecast | None, message: Message, *, new_contacts: WaitUntil, now_ms: int
) -> Eta | None:
    """Return when a message leaves and what it waits for; None if it has left, is being sent, or has ended.

    `forecast` is None where the message's session is gone; `new_contacts` is WhatsApp's limit on new contacts of its
    phone.
    """
    if message.status not in WAITING:
        return None
    if message.status == MessageStatus.SCHEDULED:
        return Eta(None, WaitReason.NOTHING)  # it is in the outbox: its worker claims it any moment
    if forecast is None:
        return Eta(None, WaitReason.NO_SENDER)
    names = await contacts.names_of(scripts, message.to)
    position = await phone_queues.position(scripts, message, names=names)
    is_new_contact = not position.is_known_contact and not is_group(message.to)
    if position.is_set_aside or (new_contacts.at_ms > now_ms and is_new_contact):
        return forecast.eta_after(wait_until(new_contacts.at_ms, new_contacts.because))
    if message.due_at > now_ms and position.turn is not None:
        eta = forecast.eta_of_turn(position.turn, position.length + forecast.in_flight)
        return eta.deferred() if message.deferred else eta
    # A message that is not routed yet comes after all that wait.
    ahead = position.length if position.rank is None else position.rank
    return forecast.eta(ahead + forecast.in_flight)


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message in a queue, with its position and its eta."""

    message: Message
    position: int
    eta: Eta


async def queue(
    scripts: Scripts, phone: str, forecast: Forecast, *, new_contacts: WaitUntil, most: int
) -> Sequence[QueuedMessage]:
    """Return the first `most` messages of a phone's queue, of those set aside and of those not due yet, in order."""
    page = await phone_queues.page(scripts, phone, most=most)
    aside = forecast.eta_after(wait_until(new_contacts.at_ms, new_contacts.because))
    found = [
        QueuedMessage(message, at + 1, forecast.eta(at + forecast.in_flight))
        for at, message in enumerate(await records.messages(scripts, page.queued))
    ]
    found += [
        QueuedMessage(message, page.length + at + 1, aside)
        for at, message in enumerate(await records.messages(scripts, page.set_aside))
    ]
    found += await _later(scripts, forecast, page)
    return found[:most]


async def _later(scripts: Scripts, forecast: Forecast, page: QueuePage) -> list[QueuedMessage]:
    """Return the messages that are not due yet, each with its place among them."""
    dues = [int(due) for _, due in page.later]
    turns = {
        name: Turn(due, at, at - bisect_left(dues, due), dues[0])
        for at, ((name, _), due) in enumerate(zip(page.later, dues, strict=True))
    }
    found = []
    for message in await records.messages(scripts, list(turns)):
        turn = turns[message.id]
        eta = forecast.eta_of_turn(turn, page.length + forecast.in_flight)
        position = page.length + page.set_aside_length + turn.before + 1
        found.append(QueuedMessage(message, position, eta.deferred() if message.deferred else eta))
    return found


async def waiting(scripts: Scripts, settings: Settings, session: Session, now_ms: int) -> Backlog:
    """Return how many messages wait for a session's phone: now, today, later."""
    (found,) = await waiting_for_each(scripts, settings, [session], now_ms)
    return found


async def waiting_for_each(
    scripts: Scripts, settings: Settings, sessions: Sequence[Session], now_ms: int
) -> list[Backlog]:
    """Return how many messages wait for the phone of each of these sessions, in one round trip."""
    days = [(each.phone, day_bounds_ms(now_ms, zone_of(settings, each))) for each in sessions]
    return [
        split_backlog(pace_of(settings, session, now_ms), zone_of(settings, session), counts, now_ms)
        for session, counts in zip(sessions, await phone_queues.counts_of_each(scripts, days), strict=True)
    ]
