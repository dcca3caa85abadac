"""Opt-outs that workers report, and what they cancel.

A compromised worker could report a stop word of anybody, and the whole fleet would stop writing to that person. So a
stop word counts for every phone without limit only from people whom this phone has written to. Of others a few an hour
count for every phone, as many as people send by themselves; the rest count for this phone alone.
"""

from collections.abc import Callable

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.messages.opt_out import Extent, extent_of
from wa_orchestrator.domain.stream_events import EventType, UnprovenOptOuts
from wa_orchestrator.orchestrator.messages import written_contacts
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_records
from wa_orchestrator.store.conversations.conversation_records import ConversationChanges
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import contacts, open_messages, queues
from wa_orchestrator.store.messages.message_keys import Place

OPTED_OUT = "OPTED_OUT"

log = structlog.get_logger(__name__)


async def report(context: Context, recipient: str, *, word: str, session: str, phone: str) -> None:
    """Carry out a stop word that a session's worker reports. Every step may be repeated."""
    scripts = context.scripts
    if await _extent(context, recipient, phone=phone, session=session) is Extent.EVERY_PHONE:
        await contacts.opt_out(scripts, recipient, word=word, via="reply", session=session, phone=phone)
        await settle_conversations(scripts, recipient)
        cancelled = await cancel_for(scripts, recipient)
        log.info("contact.opted_out", session=session, recipient=recipient[-4:], cancelled=cancelled)
        return
    await contacts.opt_out_from(scripts, recipient, phone=phone)
    await settle_conversations(scripts, recipient)
    cancelled = await cancel_for(scripts, recipient, phone=phone)
    log.warning("contact.opt_out_unproven", session=session, recipient=recipient[-4:], cancelled=cancelled)
    if await contacts.is_unproven_news(scripts, session):
        told = UnprovenOptOuts(SessionId(session), Phone(phone), contacts.UNPROVEN_PER_HOUR)
        await event_stream.emit(scripts, EventType.SESSION_OPT_OUTS_UNPROVEN, told)


async def carry_over(context: Context, contact_phone: str, lid: str, *, session: str, phone: str) -> None:
    """Let an opt-out of somebody who was known by LID alone count for the phone that is known to be theirs now, too."""
    scripts = context.scripts
    if not contact_phone or not lid or await contacts.lid_of_phone(scripts, contact_phone) != lid:
        return
    if await contacts.has_opted_out(scripts, f"lid:{lid}", phone=phone):
        await report(context, contact_phone, word="", session=session, phone=phone)


async def _extent(context: Context, recipient: str, *, phone: str, session: str) -> Extent:
    if await contacts.opt_out_of(context.scripts, recipient) is not None:
        return Extent.EVERY_PHONE
    if await written_contacts.has_written(context, phone, recipient):
        return extent_of(has_written=True, is_within_rate=True)
    is_within_rate = await contacts.count_unproven_opt_out(context.scripts, session)
    return extent_of(has_written=False, is_within_rate=is_within_rate)


async def settle_conversations(scripts: Scripts, recipient: str) -> None:
    """Let conversations with a recipient wait for an answer or not, as the list of opt-outs is now. May be repeated."""
    names = await contacts.names_of(scripts, recipient)
    found = await conversation_records.read(scripts, await conversation_records.names_of(scripts, names))
    phones = await contacts.own_phones(scripts, [each.session for each in found])
    pairs = [(each.our_phone or phones[each.session], name) for each in found for name in each.names]
    listed = await contacts.opted_out_among(scripts, pairs)
    for each in found:
        phone = each.our_phone or phones[each.session]
        changes = ConversationChanges(opted_out=any((phone, name) in listed for name in each.names))
        await conversation_records.change(scripts, each, changes, by="server", what="optedOut", our_phone=phone)


async def cancel_for(
    scripts: Scripts, recipient: str, counted: Callable[[str], bool] = lambda _: True, *, phone: str = ""
) -> int:
    """Cancel all waiting messages to a recipient who opted out, under either name, or those of one phone.

    Returns how many of them belong to sessions that are `counted`.
    """
    ended: list[str] = []
    for name in await contacts.names_of(scripts, recipient):
        while found := await _cancel_found(scripts, name, phone):
            ended += found
    return sum(map(counted, ended))


async def _cancel_found(scripts: Scripts, recipient: str, phone: str) -> list[str]:
    """Cancel the waiting messages that are found now; returns the session of each."""
    waiting = open_messages.unended(scripts, keys.messages_to(recipient))
    found = [each async for each in waiting if each.to == recipient and phone in ("", each.phone)]
    outcomes = [
        await queues.cancel(scripts, Place(each.id, each.phone, each.session), reason=OPTED_OUT) for each in found
    ]
    ended = zip(found, outcomes, strict=True)
    return [each.session for each, outcome in ended if isinstance(outcome, queues.Ended)]
