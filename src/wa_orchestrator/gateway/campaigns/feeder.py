"""Campaign feeder: hands recipients to the queues, a few at a time, and follows what becomes of their messages.

Kill it anywhere: a recipient waits until `record_campaign_row` has run, and the id of their message follows from the
campaign and the row. The next feeder finds the message by it, or makes it, once.
"""

import json
import secrets
from collections.abc import Sequence
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.campaigns import campaign as campaigns
from wa_orchestrator.domain.campaigns import plan
from wa_orchestrator.domain.campaigns.campaign import CampaignAction, CampaignState, PauseReason
from wa_orchestrator.domain.campaigns.recipients import Recipient
from wa_orchestrator.domain.campaigns.template import fill
from wa_orchestrator.errors import OrchestratorError, Refused
from wa_orchestrator.gateway import idempotency
from wa_orchestrator.gateway.acceptance import Acceptor, SendReply, SendRequest
from wa_orchestrator.gateway.campaigns import campaign_senders
from wa_orchestrator.gateway.campaigns.followed_messages import FollowedMessages
from wa_orchestrator.gateway.content_loader import text_content
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.senders.sender_pool import PoolSnapshot, SenderPool
from wa_orchestrator.loop import Loop
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.store.backups import state_dump
from wa_orchestrator.store.campaigns import campaign_records, campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign
from wa_orchestrator.store.leases import Holding, acquire_lease
from wa_orchestrator.store.messages import contacts

LEASE: Final = "campaigns"
_LEASE_MS: Final = 30_000
_STEP_S: Final = 1.0
_STANDBY_S: Final = 5.0
#: Rows that are looked through for those whose sender has a place.
_LOOK: Final = 1_000
_LOWEST: Final = 3
"""The priority of its messages: replies and single messages go first."""
_DAY_MS: Final = 86_400_000

log = structlog.get_logger(__name__)


class CampaignFeeder:
    """Steps through the active campaigns. Any number may run: a lease lets one of them work."""

    def __init__(self, context: Context, acceptor: Acceptor, pool: SenderPool) -> None:
        self._context = context
        self._scripts = context.scripts
        self._acceptor = acceptor
        self._pool = pool
        self._followed = FollowedMessages(context)
        self._owner = secrets.token_hex(8)

    async def run(self) -> None:
        """Run until cancelled."""
        await Loop("campaigns", self.step).run()

    async def step(self) -> float:
        """Go on with every active campaign, and return the seconds until the next round."""
        lease = await acquire_lease(self._scripts, LEASE, owner=self._owner, lease_ms=_LEASE_MS)
        if not isinstance(lease, Holding) or await state_dump.is_loading(self._scripts):
            return _STANDBY_S
        active = await campaign_records.active(self._scripts)
        await self._followed.note_answers(active)
        for campaign in active:
            await self._go_on(campaign)
        await self._erase_old()
        return _STEP_S

    async def _go_on(self, campaign: Campaign) -> None:
        await self._followed.settle(campaign)
        if campaign.state in campaigns.WITHDRAWN:
            await self._followed.withdraw(campaign)
        if campaign.state is CampaignState.SENDING:
            await self._send(campaign)
        elif campaign.state in campaigns.ENDED:
            await self._followed.stop_watching(campaign)

    async def _send(self, campaign: Campaign) -> None:
        pool = await self._pool.current(fresh_s=0)  # a ban of this moment counts
        if why := await self._pause_reason(campaign, pool):
            await self._change(campaign, CampaignAction.PAUSE, why)
            return
        rows = await campaign_rows.waiting(self._scripts, campaign.id, most=_LOOK)
        if rows:
            await self.feed(campaign, pool, rows)
        elif not await campaign_rows.queued(self._scripts, campaign.id):
            await self._change(campaign, CampaignAction.FINISH)

    async def _pause_reason(self, campaign: Campaign, pool: PoolSnapshot) -> PauseReason | None:
        tally = await campaign_rows.tally(self._scripts, campaign.id)
        banned = campaign_senders.banned_phones(campaign, pool)
        return campaigns.pause_reason(
            written=tally.written,
            opted_out=tally.opted_out,
            new_bans=len(banned - set(campaign.known_bans)),
            senders=len(campaign_senders.usable(campaign, pool)),
        )

    async def _change(self, campaign: Campaign, action: CampaignAction, why: str = "") -> None:
        state = campaigns.after(campaign.state, action)
        if state is not None:  # a person may have been faster; then the next round sees what they did
            await campaign_records.change(self._scripts, campaign, state, why=why)
            log.info("campaign.changed", campaign=campaign.id, state=state, why=why)

    async def feed(self, campaign: Campaign, pool: PoolSnapshot, rows: Sequence[int]) -> None:
        """Hand those of these rows to the queues whose sender has a place."""
        people = await campaign_rows.recipients(self._scripts, campaign.id, rows)
        # Their owners may have written since the file was checked.
        lids = await contacts.known_lids(self._scripts, [each.to for each in people.values()])
        for row in [row for row, each in people.items() if each.to in lids]:
            await campaign_rows.record(self._scripts, campaign.id, row, status="failed")
            del people[row]
        talking = await contacts.affinities(self._scripts, [each.to for each in people.values()])
        known = [session or "" for session in talking]
        senders = campaign_senders.takers(campaign_senders.usable(campaign, pool))
        given = plan.allot(list(zip(people, known, strict=True)), senders)
        attempts = await campaign_rows.attempts(self._scripts, campaign.id)
        ids = {row: campaigns.message_bytes(campaign.id, row, attempts.get(row, 0)) for row, _ in given}
        names = {row: f"m_{random.hex()}" for row, random in ids.items()}
        found = await message_lookup.messages(self._scripts, self._context.archive, list(names.values()))
        requests: dict[int, SendRequest] = {}
        for row, session in given:
            if message := found.get(names[row]):  # the server died before it could record this
                await self._record(campaign, row, message.id, message.session)
            else:
                phone = pool.senders[session].session.phone
                requests[row] = self._request(campaign, row, people[row], phone, ids[row])
        outcomes = await self._acceptor.accept_many(list(requests.values()))
        for row, outcome in zip(requests, outcomes, strict=True):
            await self._conclude(campaign, row, names[row], outcome)

    def _request(self, campaign: Campaign, row: int, person: Recipient, phone: str, id_bytes: bytes) -> SendRequest:
        text = fill(campaign.text, person.values)
        body = SendBody.model_validate({"to": person.to, "message": text, "phone": phone, "priority": _LOWEST})
        # Two feeders may overlap when a lease expires: of one recipient's message only one is accepted.
        key = idempotency.record_of(f"campaign:{campaign.id}", id_bytes.hex(), str(row).encode())
        return SendRequest(
            body, text_content(text), campaign.made_by, key, batch=batch_of(campaign.id), id_bytes=id_bytes
        )

    async def _conclude(self, campaign: Campaign, row: int, name: str, outcome: SendReply | OrchestratorError) -> None:
        match outcome:
            case SendReply():
                await self._record(campaign, row, name, json.loads(outcome.json)["sessionId"])
            case Refused(code="OPTED_OUT"):
                await campaign_rows.record(self._scripts, campaign.id, row, status="opted_out")
            case Refused(code="DAILY_LIMIT" | "QUEUE_FULL"):
                pass  # the snapshot was older than the queue; the row waits
            case _:
                raise outcome

    async def _record(self, campaign: Campaign, row: int, message_id: str, session: str) -> None:
        await campaign_rows.record(
            self._scripts, campaign.id, row, status="queued", message_id=message_id, session=session
        )

    async def _erase_old(self) -> None:
        """Erase campaigns as long after their end as messages: their rows name people."""
        until_ms = await self._scripts.now_ms() - self._context.settings.message_retention_days * _DAY_MS
        for campaign in await campaign_records.newest(self._scripts):
            if campaign.state in campaigns.ENDED and campaign.ended_at < until_ms:
                await campaign_records.remove(self._scripts, campaign.id)
                log.info("campaign.erased", campaign=campaign.id)


def batch_of(campaign_id: str) -> str:
    """Return the batch under which the messages of a campaign are found."""
    return f"b_{campaign_id.removeprefix('c_')}"
