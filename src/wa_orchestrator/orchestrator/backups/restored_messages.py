"""Messages of a backup that was loaded into an empty Redis: what left after the backup must not leave again."""

from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.backups import sent_journal
from wa_orchestrator.orchestrator.messages import receipts
from wa_orchestrator.store import keys
from wa_orchestrator.store.backups import restored_sessions
from wa_orchestrator.store.messages import contacts, holds, open_messages, queues
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import Message
from wa_orchestrator.timestamps import FOREVER_MS

#: Why everything is on hold: nobody knows which of the messages were sent since.
WHY: Final = "RESTORED_WITHOUT_JOURNAL"
_ARRIVED: Final = frozenset({"sent", "delivered", "read"})
_ENDED: Final = frozenset({"failed", "unknown", "expired", "cancelled"})

log = structlog.get_logger(__name__)


async def settle_messages(context: Context, cursor: str) -> None:
    """End the open messages that the journal knows to have ended since; without a journal put all sending on hold."""
    scripts = context.scripts
    journal = sent_journal.read(context.settings.backups_dir / sent_journal.FILE, cursor)
    for recipient in journal.opt_outs:
        await contacts.opt_out(scripts, recipient, word="", via="restore")
    if not journal.covers(cursor):
        if await restored_sessions.has_open_messages(scripts):
            log.warning("restore.no_journal")
            await holds.put(scripts, Hold("all", FOREVER_MS, WHY, "restore"))
        return
    found = {message.id: message async for message in open_messages.unended(scripts, keys.ALL_MESSAGES)}
    for message in found.values():
        status, at_ms = journal.statuses.get(message.id, ("", 0))
        if status in _ARRIVED:
            await _arrived(context, message, status, at_ms)
        elif status in _ENDED:
            await queues.cancel(scripts, Place.of(message), reason="RESTORED")
    known = sum(message in journal.statuses for message in found)
    log.info("restore.messages_settled", open=len(found), known=known)


async def _arrived(context: Context, message: Message, status: str, at_ms: int) -> None:
    await receipts.record(
        context, message.session, message.id, status=status, whatsapp_id=message.whatsapp_id, at_ms=at_ms
    )
    await restored_sessions.count_sent(context.scripts, Place.of(message), at_ms)
