"""What becomes of the queued messages of a session that is deleted: cancelled, or given to another sender."""

import structlog

from wa_orchestrator.domain.session import State
from wa_orchestrator.orchestrator import states
from wa_orchestrator.store import keys, outbox, queueing, reading, rerouting
from wa_orchestrator.store.places import Place
from wa_orchestrator.store.reading import Message, Session
from wa_orchestrator.web.context import Context
from wa_orchestrator.web.pace import holds_on

_WAITING = ("queued", "scheduled")
_MOST_CRASHES = 1_000_000
log = structlog.get_logger(__name__)


async def settle(context: Context, session: Session, how: str) -> int:
    """Deal with every message that waits for this session; its worker must not run any more. Gives their number."""
    ids = await context.redis.zrange(keys.messages_of_session(session.id), 0, -1)
    found = await reading.messages(context.scripts, [str(each) for each in ids])
    waiting = [each for each in found if each.status in _WAITING and each.session == session.id]
    heir = await _heir(context, session) if how == "reroute" else None
    for message in waiting:
        await _settle(context, message, heir)
    if waiting:
        log.info("session.leftovers", session=session.id, messages=len(waiting), to=heir.id if heir else None)
    return len(waiting)


async def _settle(context: Context, message: Message, heir: Session | None) -> None:
    place = Place(message.id, message.phone, message.session)
    if message.status == "scheduled" and heir is not None:
        # Nobody can claim it any more, so its lease is over now.
        now = await context.scripts.now_ms()
        await context.redis.zadd(keys.LEASES, {message.id: now - 1}, xx=True)
        await outbox.reclaim(context.scripts, place, most_crashes=_MOST_CRASHES)
    if heir is None or isinstance(await _handed_on(context, place, heir), queueing.TooLate):
        await queueing.cancel(context.scripts, place, reason="SESSION_DELETED")


async def _handed_on(context: Context, place: Place, heir: Session) -> object:
    return await rerouting.reroute(context.scripts, place, phone=heir.phone, session=heir.id)


async def _heir(context: Context, session: Session) -> Session | None:
    """Choose who sends instead: another session of the phone, else the connected one with the shortest queue."""
    holds, now_ms = await reading.holds(context.scripts), await context.scripts.now_ms()
    others = [
        each
        for each in await reading.sessions(context.scripts)
        if each.id != session.id and each.phone and each.status == State.CONNECTED and states.wants_worker(each)
        if not holds_on(holds, each, now_ms)  # a banned phone's sibling would keep them for ever
    ]
    lengths = {each.id: int(await context.redis.zcard(keys.queue(each.phone))) for each in others}
    return min(others, key=lambda each: (each.phone != session.phone, lengths[each.id], each.id), default=None)
