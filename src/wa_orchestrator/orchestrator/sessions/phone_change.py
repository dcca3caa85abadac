"""Phone change: when a session is linked to another phone, the messages that wait for it move along."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.routing import is_left_behind
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import open_messages, queues, reroutes
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import slots

log = structlog.get_logger(__name__)


async def finish_phone_change(context: Context, session_id: str) -> None:
    """Move the messages that clients pinned to a session which has left its phone; the others find other senders.

    The mark was written with the new phone and is removed last: after a crash, CONNECTED is reported again.
    """
    session = await records.session(context.scripts, session_id)
    left = session.left_phone if session else ""
    if session is None or not left:
        return
    day = day_of(context.settings, session, await context.scripts.now_ms())
    behind = await _left_behind(context, session)
    for message in behind:
        await reroutes.follow_session(context.scripts, message, session, day=day)
    for phone in left.split():
        await queues.wake(context.scripts, phone)
    await slots.clear_left_phone(context.scripts, session.id, left)
    log.warning("session.relinked", session=session.id, messages=len(behind))


async def _left_behind(context: Context, session: Session) -> list[Message]:
    index = keys.messages_of_session(session.id)
    found = {
        each.id: each
        async for each in open_messages.unended(context.scripts, index)
        if each.session == session.id and is_left_behind(each.pinned, each.phone, session.phone)
    }
    return list(found.values())
