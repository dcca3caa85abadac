"""Tells a contact which of their messages were read, as far as the account's privacy settings show that."""

from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain import recipient
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.messages import conversation_thread
from wa_orchestrator.messages.act_runner import ActRunner, Limit
from wa_orchestrator.messages.session_pace import holds_on
from wa_orchestrator.store import records
from wa_orchestrator.store.conversations.conversation_records import StoredConversation
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.sessions import commands

#: Of more unread messages the latest are told.
_MOST: Final = 50


async def tell(context: Context, known: StoredConversation, session_id: str, until_ms: int) -> None:
    """Have a session's worker mark what is unread, up to an instant, as read. Nobody waits for it.

    Nothing is told in a group, while the session is away or on hold or the archive cannot be read, and beyond its
    limit of acts; nor later.
    """
    session = await records.session(context.scripts, session_id)
    if known.group or not known.unread or session is None or session.status is not State.CONNECTED:
        return
    if known.our_phone not in ("", session.phone):  # it was linked to another phone since: that one did not get them
        return
    if holds_on(await records.holds(context.scripts), session, await context.scripts.now_ms()):
        return
    try:
        ids = await _unread(context, known, until_ms)
        if not ids:
            return
        await ActRunner(context.settings, context.scripts).spend(session_id, Limit.ACTS)
    except (Refused, Unavailable):  # here it counts as read all the same
        return
    last, *others = ids
    named = {"to": recipient.address(known.contact), "whatsappId": last, "others": " ".join(others)}
    await commands.push(context.scripts, session_id, "mark_read", **named)


async def _unread(context: Context, known: StoredConversation, until_ms: int) -> list[str]:
    """Return WhatsApp's ids of what the contact wrote and nobody has read, the latest first."""
    most = min(known.unread, _MOST)
    items, _ = await conversation_thread.page(context.scripts, context.archive, known, limit=2 * most)
    theirs = [each for each in items if isinstance(each.message, IncomingCopy) and _is_theirs(each.message)]
    return [each.whatsapp_id for each in theirs[:most] if each.at_ms <= until_ms and " " not in each.whatsapp_id]


def _is_theirs(copy: IncomingCopy) -> bool:
    return copy.fields.get("direction") != "out"
