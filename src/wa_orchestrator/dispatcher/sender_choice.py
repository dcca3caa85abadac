"""Another sender for a message whose own is gone: who could take it, and the decision by `domain.routing`."""

from typing import Any

from wa_orchestrator.domain import pacing, routing, send_attempts
from wa_orchestrator.domain.sender_pin import Pin
from wa_orchestrator.session_pace import holds_on, pace_of, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message, Session


async def find(scripts: Scripts, settings: Settings, message: Message) -> Session | None:
    """Choose a usable session for a message, within what the client has asked for; None where there is none.

    Every connected session is read: this is the way of a message whose session was deleted or gave up, not of all.
    """
    connected: Any = await scripts.redis.smembers(keys.SESSIONS_ACTIVE)
    sessions = {session.id: session for session in await records.sessions(scripts, connected) if session.phone}
    candidates = await _candidates(scripts, settings, list(sessions.values()))
    usable = [candidate for candidate in candidates if candidate.usable]
    bound = Pin.of(message.fields) is Pin.PHONE or send_attempts.is_tied_to_its_phone(message.fields)
    wish = routing.Wish(phone=message.phone if bound else None)
    affinity: Any = await scripts.redis.get(keys.affinity(message.to))
    match routing.choose(wish, usable, affinity):
        case routing.Chosen(session_id):
            return sessions[session_id]
        case routing.NoSender():
            return None


async def keeper(scripts: Scripts, message: Message, session: Session | None) -> Session | None:
    """Who keeps a message that nobody can send now: a session of its phone, its own rather than another; else its own,
    with which it goes to another phone unless the client named the phone. None where nobody may.
    """
    pin = Pin.of(message.fields)
    if pin is Pin.SESSION or (session is not None and session.phone == message.phone):
        return session
    linked: Any = await scripts.redis.smembers(keys.sessions_of_phone(message.phone))
    siblings = (each for each in await records.sessions(scripts, linked) if each.phone == message.phone)
    return next(siblings, None if pin is Pin.PHONE else session)


async def _candidates(scripts: Scripts, settings: Settings, sessions: list[Session]) -> list[routing.Candidate]:
    now_ms = await scripts.now_ms()
    holds = await records.holds(scripts)
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for session in sessions:
            day_start_ms, _ = pacing.day_bounds_ms(now_ms, zone_of(settings, session))
            pipe.zcount(keys.sent(session.phone), day_start_ms, "+inf")
            pipe.zcard(keys.queue(session.phone))
        counts: list[Any] = await pipe.execute()
    return [
        routing.Candidate(
            session_id=session.id,
            phone=session.phone,
            usable=session.status == "connected" and not holds_on(holds, session, now_ms),
            room_today=pace_of(settings, session, now_ms).per_day - counts[2 * at] - counts[2 * at + 1],
        )
        for at, session in enumerate(sessions)
    ]
