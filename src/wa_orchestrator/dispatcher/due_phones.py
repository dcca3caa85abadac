"""Reads the phones that are due, all of them in three round trips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wa_orchestrator.domain import routing
from wa_orchestrator.domain.routing import Candidate, Chosen, NoSender
from wa_orchestrator.sender_candidates import assignment_of
from wa_orchestrator.session_pace import Holds, readiness_of
from wa_orchestrator.store import phone_queues, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import sessions_of_phones


@dataclass(frozen=True, slots=True)
class DuePhone:
    """One phone as it was a moment ago. The scripts check everything again; this only saves useless calls."""

    phone: str
    in_flight: str
    silent_until_ms: int
    lock_until_ms: int
    burst_until_ms: int
    set_aside: int
    """How many of its messages a reach-out lock keeps out of the queue."""
    head: str
    """The id of the first message of its queue; empty where none waits."""
    message: Message | None = None
    """That message; None if it is missing, or if the phone cannot send now anyway."""
    sessions: Sequence[Session] = ()

    def may_send(self, now_ms: int) -> bool:
        """Whether it has something to send and neither a message in flight nor a pause forbids it."""
        return bool(self.head) and not self.in_flight and self.silent_until_ms <= now_ms

    def sender_of(self, message: Message, holds: Holds, now_ms: int) -> Session | None:
        """Return the session of this phone that sends the message; None where there is none."""
        known: dict[str, Session] = {session.id: session for session in self.sessions}
        candidates = [Candidate(each.id, each.phone, readiness_of(each, holds, now_ms)) for each in self.sessions]
        match routing.choose_again(assignment_of(message), candidates):
            case Chosen(session_id) if known[session_id].phone == self.phone:
                return known[session_id]
            case Chosen() | NoSender():
                return None


async def read(scripts: Scripts, phones: Sequence[str], now_ms: int) -> tuple[Holds, Sequence[DuePhone]]:
    """Read these phones and the holds. A phone that may not send now is not read any further."""
    holds, found = await phone_queues.heads(scripts, phones)
    due = [
        DuePhone(
            each.phone,
            each.pace.in_flight,
            each.pace.silent_until,
            each.pace.lock_until,
            each.pace.burst_until,
            each.set_aside,
            each.first,
        )
        for each in found
    ]
    heads = [each.head for each in due if each.may_send(now_ms)]
    messages: dict[str, Message] = {message.id: message for message in await records.messages(scripts, heads)}
    sessions = await _sessions(scripts, list(messages.values()))
    return holds, [
        replace(each, message=messages[each.head], sessions=sessions[each.phone]) if each.head in messages else each
        for each in due
    ]


async def _sessions(scripts: Scripts, messages: Sequence[Message]) -> Mapping[str, list[Session]]:
    """Read the sessions of each message's phone, and its own session even if that has another phone (or none yet)."""
    if not messages:
        return {}
    linked = await sessions_of_phones(scripts, [message.phone for message in messages])
    names = {message.phone: {message.session, *ids} for message, ids in zip(messages, linked, strict=True)}
    found = await records.sessions(scripts, sorted(set().union(*names.values())))
    known: dict[str, Session] = {each.id: each for each in found}
    return {phone: [known[name] for name in ids if name in known] for phone, ids in names.items()}
