"""What becomes of the queued messages of a session that is deleted: cancelled, or given to another sender."""

from collections.abc import Collection

import structlog

from wa_orchestrator.domain import send_attempts
from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.domain.sender_pin import Pin
from wa_orchestrator.domain.session import State
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import keys, open_messages, outbox, queues, records, reroutes
from wa_orchestrator.store.message_keys import Place
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.context import Context
from wa_orchestrator.session_pace import day_of, holds_on

_MOST_CRASHES = 1_000_000
log = structlog.get_logger(__name__)


async def hand_over(context: Context, session: Session, how: str) -> int:
    """Deal with every message that waits for this session; its worker must not run any more. Gives their number."""
    heir = await _choose_successor(context, session) if how == "reroute" else None
    settled: set[str] = set()
    while found := await _of(context, session, settled):
        for message in found:
            await _settle(context, message, heir)
        settled |= {message.id for message in found}
    if settled:
        log.info("session.leftovers", session=session.id, messages=len(settled), to=heir.id if heir else None)
    return len(settled)


async def _of(context: Context, session: Session, but: Collection[str]) -> list[Message]:
    """What has not ended of a session's messages, also what is not routed yet, but for those that were seen to."""
    index = keys.messages_of_session(session.id)
    every = {each.id: each async for each in open_messages.unended(context.scripts, index) if each.session == session.id}
    return [message for message in every.values() if message.id not in but]


async def _settle(context: Context, message: Message, heir: Session | None) -> None:
    place = Place(message.id, message.phone, message.session)
    if message.status != "queued":
        # Nobody can claim or finish it any more, so its lease is over now. WhatsApp may have it, if it was claimed.
        now = await context.scripts.now_ms()
        await context.redis.zadd(keys.LEASES, {message.id: now - 1}, xx=True)
        day = day_of(context.settings, None, now)
        await outbox.reclaim(context.scripts, place, most_crashes=_MOST_CRASHES, day=day)
    if heir is None or not _may_inherit(heir, message):
        handed_on = False
    else:
        outcome = await reroutes.reroute(context.scripts, place, phone=heir.phone, session=heir.id)
        handed_on = not isinstance(outcome, queues.TooLate)
    if not handed_on:
        reason = Failure.SENDER_LOST if send_attempts.may_have_arrived(message.fields) else Failure.SESSION_DELETED
        await queues.cancel(context.scripts, place, reason=reason)


def _may_inherit(heir: Session, message: Message) -> bool:
    """Say whether the client's words about the sender let another session send this message."""
    match Pin.of(message.fields):
        case Pin.NOTHING:
            return True
        case Pin.PHONE:
            return heir.phone == message.phone
        case Pin.SESSION:
            return False


async def _choose_successor(context: Context, session: Session) -> Session | None:
    """Choose who sends instead: another session of the phone, else the connected one with the shortest queue."""
    holds, now_ms = await records.holds(context.scripts), await context.scripts.now_ms()
    others = [
        each
        for each in await records.sessions(context.scripts)
        if each.id != session.id and each.phone and each.status == State.CONNECTED and transitions.wants_worker(each)
        if not holds_on(holds, each, now_ms)  # a banned phone's sibling would keep them for ever
    ]
    lengths = {each.id: int(await context.redis.zcard(keys.queue(each.phone))) for each in others}
    return min(others, key=lambda each: (each.phone != session.phone, lengths[each.id], each.id), default=None)
