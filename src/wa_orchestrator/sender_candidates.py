"""Reads what the choice of another sender for waiting messages depends on; `domain.routing` decides."""

from collections.abc import Sequence
from typing import Any

from wa_orchestrator.domain import pacing, routing
from wa_orchestrator.domain.routing import Assignment, Candidate
from wa_orchestrator.session_pace import pace_of, readiness_of, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message, Session


def assignment_of(message: Message) -> Assignment:
    """Return the session and the phone for which a message waits, and how far they are fixed."""
    tied = routing.is_tied_to_its_phone(message.claimed_at, freed=message.freed)
    return Assignment(message.session, message.phone, message.pinned, tied)


async def affinity_of(scripts: Scripts, recipient: str) -> str | None:
    """Return the session that last exchanged messages with a recipient."""
    found: Any = await scripts.redis.get(keys.affinity(recipient))
    return None if found is None else str(found)


async def read(scripts: Scripts, settings: Settings, sessions: Sequence[Session]) -> list[Candidate]:
    """Read the readiness of these sessions and the room that their phones have left today."""
    now_ms = await scripts.now_ms()
    holds = await records.holds(scripts)
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for session in sessions:
            day_start_ms, _ = pacing.day_bounds_ms(now_ms, zone_of(settings, session))
            pipe.zcount(keys.sent(session.phone), day_start_ms, "+inf")
            pipe.zcard(keys.queue(session.phone))
        counts: list[Any] = await pipe.execute()
    return [
        Candidate(
            session.id,
            session.phone,
            readiness_of(session, holds, now_ms),
            room_today=pace_of(settings, session, now_ms).per_day - counts[2 * at] - counts[2 * at + 1],
        )
        for at, session in enumerate(sessions)
    ]
