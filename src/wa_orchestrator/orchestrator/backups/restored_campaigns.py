"""Campaigns of a backup that was loaded into an empty Redis: recipients who have got the message are left out."""

from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.campaigns.campaign import ENDED, CampaignState, PauseReason, message_bytes
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus
from wa_orchestrator.domain.messages.restored_message import may_have_left
from wa_orchestrator.orchestrator.backups import journal_file
from wa_orchestrator.orchestrator.backups.journal_file import Journal
from wa_orchestrator.store.campaigns import campaign_records, campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign

#: How often a message may have been taken back and made again since the backup: each has another id.
_ATTEMPTS: Final = 50
_MOST_ROWS: Final = 100_000

log = structlog.get_logger(__name__)


async def settle_campaigns(context: Context, cursor: str) -> None:
    """Record whose message left after the backup, by the journal and the ids that messages of a row have.

    Without a journal nobody knows, and what was sending waits for a person. May be repeated.
    """
    scripts = context.scripts
    journal = journal_file.read(context.settings.backups_dir / journal_file.FILE, cursor)
    for campaign in await campaign_records.newest(scripts):
        if campaign.state in ENDED:
            continue
        left = await _record_left(context, campaign, journal)
        if campaign.state is CampaignState.SENDING and not journal.covers(cursor):
            await campaign_records.change(scripts, campaign, CampaignState.PAUSED, why=PauseReason.RESTORED)
        log.info("restore.campaign_settled", campaign=campaign.id, left=left)


async def _record_left(context: Context, campaign: Campaign, journal: Journal) -> int:
    attempts = await campaign_rows.attempts(context.scripts, campaign.id)
    count = 0
    for row in await campaign_rows.waiting(context.scripts, campaign.id, most=_MOST_ROWS):
        first = attempts.get(row, 0)
        for attempt in range(first, first + _ATTEMPTS):
            name = f"m_{message_bytes(campaign.id, row, attempt).hex()}"
            trace, _ = journal.trace(name) if name in journal.notes else ("", 0)
            if may_have_left(trace):
                status = trace if trace in SUCCEEDED else MessageStatus.UNKNOWN
                await campaign_rows.record(context.scripts, campaign.id, row, status=status, message_id=name)
                count += 1
                break
    return count
