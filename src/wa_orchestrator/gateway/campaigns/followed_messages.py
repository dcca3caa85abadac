"""Follows what became of a campaign's messages, takes back what waits, and notes who answered or opted out."""

from collections.abc import Mapping, Sequence
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.campaigns.campaign import CampaignState
from wa_orchestrator.domain.messages.message import WAITING, MessageStatus
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.store import keys
from wa_orchestrator.store.campaigns import campaign_answers, campaign_records, campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign
from wa_orchestrator.store.campaigns.campaign_rows import RowOutcome
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import Entry, Message

#: Why a message was cancelled: its campaign was paused or cancelled.
HALTED: Final = "CAMPAIGN_HALTED"
#: How long after its end receipts, answers and opt-outs still count for a campaign.
WATCHED_MS: Final = 7 * 86_400_000
#: Messages that have left and are looked at per round.
_OPEN: Final = 300
_EVENTS: Final = 1_000
_ON_ITS_WAY: Final = WAITING | {MessageStatus.SENDING}
_FINAL: Final = frozenset({MessageStatus.READ, MessageStatus.CANCELLED, MessageStatus.EXPIRED})


class FollowedMessages:
    """The messages of the active campaigns."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts

    async def note_answers(self, active: Sequence[Campaign]) -> None:
        """Note who wrote or opted out since the last round."""
        if not active:
            await campaign_answers.skip_events(self._scripts)
            return
        entries = await event_stream.unread(self._scripts, keys.CAMPAIGNS_CURSOR, most=_EVENTS)
        wrote = [each for each in entries if each.fields.get("type") == EventType.MESSAGE_RECEIVED]
        stopped = [each for each in entries if each.fields.get("type") == EventType.CONTACT_OPTED_OUT]
        for campaign in active:
            await self._note(campaign, _people(wrote), _people(stopped))
        if entries:
            await campaign_answers.events_noted(self._scripts, entries[-1].cursor)

    async def _note(self, campaign: Campaign, wrote: Mapping[str, set[str]], stopped: Mapping[str, set[str]]) -> None:
        """Mark who answered: to the phone that wrote to them, or any worker could count as many as it likes."""
        known = await campaign_answers.written_to(self._scripts, campaign.id, [*wrote.keys() | stopped.keys()])
        ids = [known[person].message_id for person in wrote.keys() & known.keys()]
        sent = await message_lookup.messages(self._scripts, self._context.archive, ids) if ids else {}
        answered = [
            row.row
            for person, row in known.items()
            if (message := sent.get(row.message_id)) is not None and message.phone in wrote.get(person, ())
        ]
        opted_out = [known[person].row for person in stopped.keys() & known.keys()]
        await campaign_answers.note(self._scripts, campaign.id, answered, opted_out)

    async def settle(self, campaign: Campaign) -> None:
        """Record the statuses that messages have got since."""
        rows = await campaign_rows.queued(self._scripts, campaign.id)
        rows += await campaign_rows.open_rows(self._scripts, campaign.id, most=_OPEN)
        for outcome, message in await self._messages(campaign, rows):
            await self._settle(campaign, outcome, message)

    async def withdraw(self, campaign: Campaign) -> None:
        """Cancel what waits in the queues; its recipients wait again, unless the campaign is cancelled."""
        rows = await campaign_rows.queued(self._scripts, campaign.id)
        for _, message in await self._messages(campaign, rows):
            if message is not None and message.status in WAITING:
                await queues.cancel(self._scripts, Place.of(message), reason=HALTED)
        await self.settle(campaign)

    async def stop_watching(self, campaign: Campaign) -> None:
        """Forget about a campaign that ended long ago."""
        is_old = campaign.ended_at < await self._scripts.now_ms() - WATCHED_MS
        if is_old and not await campaign_rows.queued(self._scripts, campaign.id):
            await campaign_records.stop_watching(self._scripts, campaign.id)

    async def _messages(self, campaign: Campaign, rows: Sequence[int]) -> list[tuple[RowOutcome, Message | None]]:
        outcomes = [
            each
            for each in (await campaign_rows.outcomes(self._scripts, campaign.id, rows)).values()
            if each.message_id
        ]
        ids = [each.message_id for each in outcomes]
        found = await message_lookup.messages(self._scripts, self._context.archive, ids)
        return [(each, found.get(each.message_id)) for each in outcomes]

    async def _settle(self, campaign: Campaign, outcome: RowOutcome, message: Message | None) -> None:
        if message is None:  # erased, with the person or by age
            await campaign_rows.settle(self._scripts, campaign.id, outcome, "final")
            return
        is_halted = message.status is MessageStatus.CANCELLED and message.reason == HALTED
        if is_halted and campaign.state is not CampaignState.CANCELLED:
            await campaign_rows.take_back(self._scripts, campaign.id, outcome.row, message.id)
            return
        on_its_way = message.status in _ON_ITS_WAY
        status = "queued" if on_its_way else str(message.status)
        at_ms = message.read_at or message.delivered_at or message.sent_at or outcome.at_ms
        place = "queued" if on_its_way else "final" if message.status in _FINAL else "open"
        now = RowOutcome(outcome.row, status, message.id, message.session, at_ms)
        await campaign_rows.settle(self._scripts, campaign.id, now, place)


def _people(entries: Sequence[Entry]) -> dict[str, set[str]]:
    """Return who wrote outside of groups, each with the phones of ours that they wrote to."""
    found: dict[str, set[str]] = {}
    for fields in (each.fields for each in entries):
        if fields.get("contact_phone") and not fields.get("group"):
            found.setdefault(fields["contact_phone"], set()).add(fields.get("phone", ""))
    return found
