"""What becomes of the queued messages of a session that is deleted: cancelled, or given to another sender."""

from collections.abc import Collection
from dataclasses import replace

import structlog

from wa_orchestrator import sender_candidates
from wa_orchestrator.domain import routing
from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.domain.routing import Candidate, NoSender, Readiness
from wa_orchestrator.domain.session import State
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import contacts, keys, open_messages, outbox, queues, records, reroutes
from wa_orchestrator.store.message_keys import Place
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.context import Context
from wa_orchestrator.session_pace import day_of

_MOST_CRASHES = 1_000_000
log = structlog.get_logger(__name__)


async def hand_over(context: Context, session: Session, how: str) -> int:
    """Deal with every message that waits for this session; its worker must not run any more. Return their number."""
    heirs = await _candidates(context, session) if how == "reroute" else []
    settled: set[str] = set()
    while found := await _of(context, session, settled):
        for message in found:
            await _settle(context, message, heirs)
        settled |= {message.id for message in found}
    if settled:
        log.info("session.queue_settled", session=session.id, messages=len(settled), how=how)
    return len(settled)


async def _of(context: Context, session: Session, but: Collection[str]) -> list[Message]:
    """What has not ended of a session's messages, also what is not routed yet, but for those that were seen to."""
    index = keys.messages_of_session(session.id)
    every = {each.id: each async for each in open_messages.unended(context.scripts, index) if each.session == session.id}
    return [message for message in every.values() if message.id not in but]


async def _settle(context: Context, message: Message, heirs: list[Candidate]) -> None:
    place = Place(message.id, message.phone, message.session)
    if message.status != "queued":
        # Nobody can claim or finish it any more, so its lease is over now. WhatsApp may have it, if it was claimed.
        now = await context.scripts.now_ms()
        await outbox.expire_lease(context.scripts, message.id, now_ms=now)
        day = day_of(context.settings, None, now)
        await outbox.reclaim(context.scripts, place, most_crashes=_MOST_CRASHES, day=day)
    if not await _hand_over(context, place, message, heirs):
        reason = Failure.SENDER_LOST if routing.may_have_arrived(message.claimed_at) else Failure.SESSION_DELETED
        await queues.cancel(context.scripts, place, reason=reason)


async def _hand_over(context: Context, place: Place, message: Message, heirs: list[Candidate]) -> bool:
    """Move a message to another session, within what the client asked for; return whether there is one."""
    affinity = await contacts.affinity(context.scripts, message.to)
    choice = routing.choose_again(sender_candidates.assignment_of(message), heirs, affinity=affinity)
    if isinstance(choice, NoSender):
        return False
    at = next(at for at, heir in enumerate(heirs) if heir.session_id == choice.session_id)
    outcome = await reroutes.reroute(context.scripts, place, phone=heirs[at].phone, session=choice.session_id)
    heirs[at] = replace(heirs[at], room_today=heirs[at].room_today - 1)
    return not isinstance(outcome, queues.TooLate)


async def _candidates(context: Context, session: Session) -> list[Candidate]:
    """Read the other sessions that can send now; one that cannot, such as a banned phone's, might keep them for ever."""
    others = [
        each
        for each in await records.sessions(context.scripts)
        if each.id != session.id and each.phone and each.status == State.CONNECTED and transitions.wants_worker(each)
    ]
    found = await sender_candidates.read(context.scripts, context.settings, others)
    return [candidate for candidate in found if candidate.readiness is Readiness.READY]
