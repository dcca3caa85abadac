"""Erases one person from Redis, the archive, webhook deliveries and events. The archiver runs it, between two moves.

In two passes: what was on its way during the first (a copy, a delivery that was being made, a message that a worker
had) is erased by the second.
"""

from typing import Final

import structlog

from wa_orchestrator.archive.contract import Archive, Contact
from wa_orchestrator.domain.phone import last_four
from wa_orchestrator.domain.recipient import lid_of
from wa_orchestrator.store.campaigns import campaign_rows
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.history import archive_marks, erasures
from wa_orchestrator.store.messages import contacts

_BETWEEN_MS: Final = 30_000
_BATCH: Final = 500

log = structlog.get_logger(__name__)


async def contact_of(scripts: Scripts, phone: str) -> Contact:
    """Return a person with the LID by which WhatsApp also names them, or names them alone (`lid:…`).

    Not with a LID that has another phone by now: what is known under that is about whoever has it.
    """
    return Contact(phone, lid_of(phone) or await contacts.lid_of_phone(scripts, phone))


async def step(scripts: Scripts, archive: Archive) -> int:
    """Carry out what was asked for; return how many requests were worked on."""
    now_ms, worked = await scripts.now_ms(), 0
    for request in await erasures.requests(scripts):
        if request.passed_at and now_ms - request.passed_at < _BETWEEN_MS:
            continue
        worked += 1
        known = await contact_of(scripts, request.phone)
        contact = known if known.lid else Contact(request.phone, request.lid)
        ended = await _erase(scripts, archive, contact)
        if request.passed_at and ended:
            await archive_marks.rewrite(scripts)
            await erasures.finish(scripts, request.phone)
            log.info("contact.erased", phone=last_four(request.phone))
        else:
            await erasures.set_passed(scripts, request.phone, now_ms, contact.lid)
    return worked


async def _erase(scripts: Scripts, archive: Archive, contact: Contact) -> bool:
    """Erase everything about a person that can be; False while a worker has a message to them."""
    await campaign_rows.erase_recipient(scripts, contact.phone)
    held = sum([await erasures.cancel_open(scripts, name) for name in contact.names])
    ids = {each for name in contact.names for each in await erasures.erase_messages(scripts, name)}
    last = ""
    while copies := await archive.messages_to(contact, after=last, most=_BATCH):
        last = copies[-1].id
        ids.update(each.id for each in copies)
    await erasures.erase_incoming(scripts, contact.names)
    await erasures.erase_events(scripts, contact.names, ids)
    await webhooks.erase_deliveries(scripts, contact.phone, contact.lid)
    while await archive.erase_contact(contact, sorted(ids), most=_BATCH):
        pass
    await archive.shrink()
    await erasures.erase_facts(scripts, contact.phone, contact.lid)
    return not held
