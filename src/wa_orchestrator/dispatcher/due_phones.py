"""Reads the phones that are due, all of them in three round trips."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wa_orchestrator.domain.messages import sender_policy
from wa_orchestrator.domain.messages.sender_policy import Candidate, Chosen, NoSender, Pin, Readiness
from wa_orchestrator.messages.sender_candidates import assignment_of
from wa_orchestrator.messages.session_pace import Holds, readiness_of
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import phone_queues
from wa_orchestrator.store.messages.phone_queues import QueueHead
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import sessions_of_phones

#: A worker always waits for messages, and the server sees it waiting every ten seconds (`worker_outbox`). One that was
#: not seen for so long is frozen or cut off.
SILENT_MS = 15_000


@dataclass(frozen=True, slots=True)
class DuePhone:
    """One phone as it was a moment ago. The scripts check everything again; this only saves useless calls."""

    queue: QueueHead
    message: Message | None = None
    """The head of its queue; None if it is missing, or if the phone cannot send now anyway."""
    sessions: Sequence[Session] = ()

    def sender_of(self, message: Message, holds: Holds, now_ms: int) -> Session | None:
        """Return the session of this phone that sends the message; None where there is none."""
        known: dict[str, Session] = {session.id: session for session in self.sessions}
        candidates = [Candidate(each.id, each.phone, readiness_of(each, holds, now_ms)) for each in self.sessions]
        asking = [each for each in candidates if self._asks(each, known[each.session_id], now_ms)]
        if asking and message.pinned is not Pin.SESSION:
            candidates = asking  # a frozen device would keep the message for a whole lease
        match sender_policy.choose_again(assignment_of(message), candidates):
            case Chosen(session_id) if known[session_id].phone == self.queue.phone:
                return known[session_id]
            case Chosen() | NoSender():
                return None

    def _asks(self, candidate: Candidate, session: Session, now_ms: int) -> bool:
        """Whether a session of this phone is ready, and its worker waits for messages."""
        is_ready = candidate.phone == self.queue.phone and candidate.readiness is Readiness.READY
        return (
            is_ready and abs(now_ms - session.asked_at) <= SILENT_MS
        )  # either way: Redis' clock may have been set back


async def read(scripts: Scripts, phones: Sequence[str], now_ms: int) -> tuple[Holds, Sequence[DuePhone]]:
    """Read these phones and the holds. A phone that may not send now is not read any further."""
    holds, queues = await phone_queues.heads(scripts, phones)
    asked = [queue.head for queue in queues if _may_send(queue, now_ms)]
    if not asked:
        return holds, [DuePhone(queue) for queue in queues]
    found, linked = await asyncio.gather(records.messages(scripts, asked), sessions_of_phones(scripts, phones))
    messages: dict[str, Message] = {message.id: message for message in found}
    sessions = await _sessions(scripts, found, dict(zip(phones, linked, strict=True)))
    return holds, [DuePhone(queue, messages.get(queue.head), sessions.get(queue.phone, ())) for queue in queues]


def _may_send(queue: QueueHead, now_ms: int) -> bool:
    return bool(queue.head) and not queue.pace.in_flight and queue.pace.silence_end(now_ms) <= now_ms


async def _sessions(
    scripts: Scripts, messages: Sequence[Message], linked: Mapping[str, set[str]]
) -> Mapping[str, list[Session]]:
    """Read the sessions of each message's phone, and its own session even if that has another phone (or none yet)."""
    if not messages:
        return {}
    names = {message.phone: {message.session, *linked.get(message.phone, ())} for message in messages}
    found = await records.sessions(scripts, sorted(set().union(*names.values())))
    known: dict[str, Session] = {each.id: each for each in found}
    return {phone: [known[name] for name in ids if name in known] for phone, ids in names.items()}
