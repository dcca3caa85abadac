"""Queue handover: what becomes of a session's messages when it is deleted or linked to another phone."""

from dataclasses import replace

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages import sender_policy
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.messages.sender_policy import Candidate, NoSender, Readiness
from wa_orchestrator.messages import sender_candidates
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import contacts, deadlines, open_messages, outbox, queues
from wa_orchestrator.store.messages.deadlines import Deadline
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import slots

log = structlog.get_logger(__name__)


async def hand_over(context: Context, session: Session, how: str) -> int:
    """Cancel or move every message that waits for this session. Its worker must not run. Return their number."""
    candidates = await _candidates(context, session) if how == "reroute" else []
    handled: set[str] = set()
    while found := [message for message in await _unended(context, session) if message.id not in handled]:
        for message in found:
            await _settle(context, message, candidates)
        handled |= {message.id for message in found}
    if handled:
        log.info("session.queue_settled", session=session.id, messages=len(handled), how=how)
    return len(handled)


async def follow_to_new_phone(context: Context, session_id: str) -> None:
    """Move the messages that clients pinned to a session which has left its phone; the others find other senders.

    The mark was written with the new phone and is removed last: after a crash, CONNECTED is reported again.
    """
    session = await records.session(context.scripts, session_id)
    left = session.left_phone if session else ""
    if session is None or not left:
        return
    day = day_of(context.settings, session, await context.scripts.now_ms())
    unended = await _unended(context, session)
    behind = [each for each in unended if sender_policy.is_left_behind(each.pinned, each.phone, session.phone)]
    for message in behind:
        await queues.follow_session(context.scripts, message, session, day=day)
    for phone in left.split():
        await queues.wake(context.scripts, phone)
    await slots.clear_left_phone(context.scripts, session.id, left)
    log.warning("session.relinked", session=session.id, messages=len(behind))


async def _unended(context: Context, session: Session) -> list[Message]:
    """Return a session's unfinished messages, each once, also those not routed yet; the oldest first.

    They move one by one: a newer one that moved first would leave before the older ones to the same recipient.
    """
    found = open_messages.unended(context.scripts, keys.messages_of_session(session.id))
    own = {each.id: each async for each in found if each.session == session.id}
    return sorted(own.values(), key=lambda each: each.sequence)


async def _settle(context: Context, message: Message, candidates: list[Candidate]) -> None:
    place = Place(message.id, message.phone, message.session)
    if message.status != "queued":
        # No worker can claim or finish it any more, so its lease ends now. If it was claimed, WhatsApp may have it.
        now = await context.scripts.now_ms()
        await deadlines.move(context.scripts, Deadline.LEASE, message.id, now - 1)
        day = day_of(context.settings, None, now)
        await outbox.reclaim(context.scripts, place, most_crashes=None, day=day)
    if not await _hand_over(context, place, message, candidates):
        reason = Failure.SENDER_LOST if sender_policy.may_have_arrived(message.claimed_at) else Failure.SESSION_DELETED
        await queues.cancel(context.scripts, place, reason=reason)


async def _hand_over(context: Context, place: Place, message: Message, candidates: list[Candidate]) -> bool:
    """Move a message to another session, within what the client asked for; return whether there is one."""
    affinity = await contacts.affinity(context.scripts, message.to)
    choice = sender_policy.choose_again(sender_candidates.assignment_of(message), candidates, affinity=affinity)
    if isinstance(choice, NoSender):
        return False
    at = next(at for at, candidate in enumerate(candidates) if candidate.session_id == choice.session_id)
    outcome = await queues.reroute(context.scripts, place, phone=candidates[at].phone, session=choice.session_id)
    candidates[at] = replace(candidates[at], room_today=candidates[at].room_today - 1)
    return not isinstance(outcome, queues.TooLate)


async def _candidates(context: Context, session: Session) -> list[Candidate]:
    """Read the other sessions that can send or will; one that needs a person might keep the messages for ever."""
    others = [
        each
        for each in await records.sessions(context.scripts)
        if each.id != session.id and each.phone and transitions.wants_worker(each)
    ]
    found = await sender_candidates.read(context.scripts, context.settings, others)
    return [candidate for candidate in found if candidate.readiness is not Readiness.OFFLINE]
