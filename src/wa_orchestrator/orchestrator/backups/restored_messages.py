"""Messages of a backup that was loaded into an empty Redis: what may have left since does not leave again by itself."""

from collections import Counter
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus
from wa_orchestrator.domain.messages.restored_message import settled_status
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.orchestrator.backups import journal_file
from wa_orchestrator.orchestrator.messages import opt_outs, receipts
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.backups import restored_sessions
from wa_orchestrator.store.messages import contacts, holds, open_messages, outbox, queues
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.messages.message_keys import Place, counted_in
from wa_orchestrator.store.records import Message
from wa_orchestrator.timestamps import FOREVER_MS

#: Why everything is on hold: nobody knows which of the messages were sent since.
WHY: Final = "RESTORED_WITHOUT_JOURNAL"
HELD: Final = "held"
WAITING: Final = "waiting"

log = structlog.get_logger(__name__)


async def settle_messages(context: Context, cursor: str) -> Counter[str]:
    """Give open messages the end that the journal knows, and call `unknown` what may have left. May be repeated.

    Without a journal everything else is put on hold. Returns how many have which status now; `waiting` is what is sent
    from here on, `held` what waits for a person.
    """
    scripts = context.scripts
    journal = journal_file.read(context.settings.backups_dir / journal_file.FILE, cursor)
    for recipient in journal.opt_outs:
        await contacts.opt_out(scripts, recipient, word="", via="restore")
        await opt_outs.settle_conversations(scripts, recipient)
    found = {message.id: message async for message in open_messages.unended(scripts, keys.ALL_MESSAGES)}
    told: Counter[str] = Counter()
    for message in found.values():
        trace, at_ms = journal.trace(message.id)
        settled = settled_status(
            message.status, in_doubt=message.in_doubt, may_be_written=not message.claimed_by, trace=trace
        )
        told[settled or WAITING] += 1
        if settled is not None:
            await _settle(context, message, settled, at_ms)
    if told[WAITING] and not journal.covers(cursor):
        told[HELD] = told.pop(WAITING)
        await holds.put(scripts, Hold("all", FOREVER_MS, WHY, "restore"))
    log.info("restore.messages_settled", **told)
    return told


async def _settle(context: Context, message: Message, status: MessageStatus, at_ms: int) -> None:
    place = Place.of(message)
    if status in SUCCEEDED:
        receipt = outbox.MessageReport(message.session, status, message.whatsapp_id, at_ms)
        await receipts.record(context, message.id, receipt)
        await restored_sessions.count_sent(context.scripts, place, at_ms)
        return
    now_ms = await context.scripts.now_ms()
    session = await records.session(context.scripts, message.session)
    counted = counted_in(message.session, day_of(context.settings, session, now_ms))
    left_at = (at_ms or now_ms) if status is MessageStatus.UNKNOWN else 0
    await queues.settle(
        context.scripts, place, status=status, reason=Failure.RESTORED, left_at_ms=left_at, counted=counted
    )
