"""Whom a phone has written to: only about those is a worker believed beyond its own session.

A compromised worker can report messages of anybody. It must not take the conversations of other phones, or
every message to those people would go to it, nor give the LID of a person to another phone, which would get theirs.
"""

from collections.abc import Iterable

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus
from wa_orchestrator.domain.pacing.limits import DAY_MS
from wa_orchestrator.messages import message_search
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.messages.contacts import Incoming
from wa_orchestrator.store.messages.message_filters import Filters

#: The recipient has the message, or may have it.
_WRITTEN = SUCCEEDED | {MessageStatus.UNKNOWN, MessageStatus.SENDING}
_PAGE = 200
#: What a worker finds out while it sends is told soon after, unless the server is away for long.
_LATELY_MS = DAY_MS

log = structlog.get_logger(__name__)


async def has_written(context: Context, phone: str, recipient: str, *, since_ms: int = 0) -> bool:
    """Whether a message to this person has left from this phone, as far as Redis and the archive know.

    With `since_ms`: whether a worker was given one since then, even if WhatsApp refused it.
    """
    both, last = (context.scripts, context.archive), None
    while True:
        wanted = Filters(to=recipient, statuses=() if since_ms else _WRITTEN)
        found, last = await message_search.search(*both, wanted, after=last, limit=_PAGE)
        if any(message.phone == phone and message.claimed_at >= since_ms for message in found):
            return True
        if last is None:
            return False


async def has_written_to_any(context: Context, phone: str, names: Iterable[str]) -> bool:
    """Whether a message to this person has left from this phone under one of their names."""
    return any([await has_written(context, phone, name) for name in names])


async def may_report_new_owner(context: Context, phone: str, contact_phone: str, old_lid: str) -> bool:
    """Whether a worker of this phone is believed that a contact's number belongs to somebody else now.

    It finds that out by writing to them, so we have given it a message to them lately. One to a LID says something
    about a number only where we know ourselves that both are one person.
    """
    is_theirs = await contacts.phone_of_lid(context.scripts, old_lid) == contact_phone if old_lid else False
    names = [contact_phone, f"lid:{old_lid}"] if is_theirs else [contact_phone]
    since_ms = await context.scripts.now_ms() - _LATELY_MS
    return any([await has_written(context, phone, name, since_ms=since_ms) for name in names])


async def follow(context: Context, message: Incoming) -> None:
    """Let a new message of a private chat move the conversation to its session, and change its sender's names."""
    if message.group:
        return
    if message.contact_phone and message.contact_lid:
        await _change_names(context, message)
    await _take_over(context, message)


async def _take_over(context: Context, message: Incoming) -> None:
    """Give the conversation to the session that was written to, unless only its worker's word speaks for it."""
    scripts, session, contact = context.scripts, message.session, message.chat
    holder_id = await contacts.affinity(scripts, contact)
    if holder_id in (None, session):
        return
    holder = await records.session(scripts, holder_id)
    is_same_phone = holder is None or holder.phone in ("", message.phone)
    is_proven = is_same_phone or await has_written(context, message.phone, contact)
    if is_proven or await contacts.count_unproven_takeover(scripts, session):
        await contacts.set_affinity(scripts, contact, session)
    else:
        log.warning("conversation.takeover_unproven", session=session, holder=holder_id, contact=contact[-4:])


async def _change_names(context: Context, message: Incoming) -> None:
    """Record another phone of a LID, or another LID of a phone, if this phone has written to who was known by them."""
    phone, lid = message.contact_phone, message.contact_lid
    known_phone, known_lid = await contacts.recorded_names(context.scripts, phone, lid)
    before = [(known_phone, f"lid:{lid}")] if known_phone not in ("", phone) else []
    before += [(phone, f"lid:{known_lid}")] if known_lid not in ("", lid) else []
    if not before:
        return
    if all([await has_written_to_any(context, message.phone, names) for names in before]):
        await contacts.set_names(context.scripts, phone, lid)
    else:
        log.warning("contact.names_unproven", session=message.session, contact=message.contact_phone[-4:])
