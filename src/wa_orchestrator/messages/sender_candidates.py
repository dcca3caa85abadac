"""Reads what the choice of another sender for waiting messages depends on; `domain.messages.sender_policy` decides."""

from collections.abc import Sequence

from wa_orchestrator.domain.messages import sender_policy
from wa_orchestrator.domain.messages.sender_policy import Assignment, Candidate
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.messages.session_pace import pace_of, readiness_of, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import phone_queues
from wa_orchestrator.store.records import Message, Session


def assignment_of(message: Message) -> Assignment:
    """Return the session and the phone for which a message waits, and how far they are fixed."""
    tied = sender_policy.is_tied_to_its_phone(message.claimed_at, freed=message.freed)
    return Assignment(message.session, message.phone, message.pinned, tied)


async def read(scripts: Scripts, settings: Settings, sessions: Sequence[Session]) -> list[Candidate]:
    """Read the readiness of these sessions and the room that their phones have left today."""
    now_ms = await scripts.now_ms()
    holds = await records.holds(scripts)
    day_starts = [(each.phone, day_bounds_ms(now_ms, zone_of(settings, each))[0]) for each in sessions]
    counts = await phone_queues.sent_and_queued(scripts, day_starts)
    return [
        Candidate(
            session.id,
            session.phone,
            readiness_of(session, holds, now_ms),
            room_today=pace_of(settings, session, now_ms).per_day - sent - queued,
        )
        for session, (sent, queued) in zip(sessions, counts, strict=True)
    ]
