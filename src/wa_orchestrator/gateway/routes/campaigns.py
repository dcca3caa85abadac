"""Routes `/api/v1/campaigns`: one text to many recipients who agreed to it."""

import secrets
from typing import Annotated, Final

from fastapi import Path

from wa_orchestrator.context import Context
from wa_orchestrator.domain.campaigns import campaign as campaigns
from wa_orchestrator.domain.campaigns.campaign import CampaignAction, CampaignState, PauseReason
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.gateway.campaigns import campaign_check, campaign_models, campaign_senders
from wa_orchestrator.gateway.campaigns.campaign_models import (
    CampaignBody,
    CampaignDetail,
    CampaignRecipient,
    CampaignRecipientPage,
    CampaignsResponse,
    RecipientFilter,
)
from wa_orchestrator.gateway.campaigns.end_date import EndDates
from wa_orchestrator.gateway.campaigns.feeder import batch_of
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.store.campaigns import campaign_answers, campaign_records, campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign, StateChanged
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import Caller, OperateCaller, ReadCaller
from wa_orchestrator.web.keyed_route import longest_body
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

MAX_BYTES: Final = 16 * 1024 * 1024
#: A person and the feeder may change a campaign at the same moment.
_TRIES: Final = 5
_CHUNK: Final = 500
CampaignId = Annotated[str, Path(pattern=r"^c_[0-9a-f]{18}$", examples=["c_0a1b2c3d4e5f607182"])]


class CampaignRoutes(RouteGroup):
    """Routes of campaigns. They are about the whole fleet: closed to callers that are limited to some sessions."""

    def __init__(self, context: Context, pool: SenderPool) -> None:
        super().__init__(context, "/api/v1/campaigns", "campaigns")
        self._pool = pool
        self._ends = EndDates(context, pool)
        unknown = responses(NO_SUCH_CAMPAIGN=404)
        changes = responses(NO_SUCH_CAMPAIGN=404, CAMPAIGN_STATE=409)
        refusals = responses(
            CAMPAIGN_LINES=422, CAMPAIGN_FILE_NO_PHONE_COLUMN=422, CAMPAIGN_FILE_COLUMN_MISSING=422,
            CAMPAIGN_FILE_COLUMN_TWICE=422, CAMPAIGN_FILE_EMPTY=422, CAMPAIGN_FILE_NOT_CSV=422,
            CAMPAIGN_FILE_TOO_MANY=422, CAMPAIGN_NO_RECIPIENTS=422, CAMPAIGN_BRACES=422, CAMPAIGN_NO_STOP_WORD=422,
        )  # fmt: skip
        self.get("")(self.list_campaigns)
        self.post("", status_code=201, responses=refusals)(self.create_campaign)
        self.get("/{campaign_id}", responses=unknown)(self.get_campaign)
        self.get("/{campaign_id}/recipients", responses=unknown)(self.list_recipients)
        self.post("/{campaign_id}/start", responses=changes)(self.start_campaign)
        self.post("/{campaign_id}/pause", responses=changes)(self.pause_campaign)
        self.post("/{campaign_id}/resume", responses=changes)(self.resume_campaign)
        self.post("/{campaign_id}/cancel", responses=changes)(self.cancel_campaign)

    async def list_campaigns(self, _caller: ReadCaller) -> CampaignsResponse:
        """List all campaigns, the newest first."""
        found = await campaign_records.newest(self._scripts)
        return CampaignsResponse(
            campaigns=[
                campaign_models.summary(each, await campaign_rows.tally(self._scripts, each.id)) for each in found
            ]
        )

    @longest_body(MAX_BYTES)
    async def create_campaign(self, body: CampaignBody, caller: OperateCaller) -> CampaignDetail:
        """Make a draft: text and file are checked, and the answer says when it would end. Nobody is written to yet."""
        found, doubles, opted_out = await campaign_check.check(self._context, body)
        campaign_id = f"c_{secrets.token_hex(9)}"
        fields: dict[str, object] = body.model_dump(exclude={"csv", "skip_bad_lines"})
        fields |= {"sessions": tuple(body.sessions), "tags": tuple(body.tags)}
        fields |= {"doubles": doubles, "opted_out_before": opted_out, "made_by": caller.key_id}
        await campaign_records.stage(self._scripts, campaign_id, found)
        if not await campaign_records.create(self._scripts, campaign_id, len(found), fields):
            raise Unavailable("CAMPAIGN_NOT_STORED", "The recipients could not be stored. Try again.")
        await self._audit(caller, "campaign.create", campaign_id, name=body.name, recipients=len(found))
        return await self._detail(await self._find(campaign_id))

    async def get_campaign(self, campaign_id: CampaignId, _caller: ReadCaller) -> CampaignDetail:
        """Return a campaign: where its recipients are, and when it ends."""
        return await self._detail(await self._find(campaign_id))

    async def list_recipients(
        self,
        campaign_id: CampaignId,
        _caller: ReadCaller,
        status: RecipientFilter | None = None,
        cursor: paging.Cursor = None,
        limit: paging.Limit = 100,
    ) -> CampaignRecipientPage:
        """List the recipients: who got it, who answered, who opted out."""
        campaign = await self._find(campaign_id)
        position = paging.decode(cursor) if cursor else "0"
        if not position.isdecimal():
            raise paging.bad_cursor()
        row, found = int(position), list[CampaignRecipient]()
        while row < campaign.total and len(found) <= limit:
            rows = range(row + 1, min(row + _CHUNK, campaign.total) + 1)
            found += [each for each in await self._recipients(campaign_id, list(rows)) if _is_listed(each, status)]
            row = rows[-1]
        after = paging.encode(str(found[limit - 1].row)) if len(found) > limit else None
        return CampaignRecipientPage(recipients=found[:limit], next=after)

    async def start_campaign(self, campaign_id: CampaignId, caller: OperateCaller) -> CampaignDetail:
        """Start a draft. The audit log keeps who did it, and where the recipients agreed."""
        campaign = await self._find(campaign_id)
        if _after(campaign, CampaignAction.START) is not campaign.state:
            await self._audit(  # first: no message leaves without it
                caller, "campaign.start", campaign_id,
                name=campaign.name, recipients=campaign.total, consent=campaign.consent,
            )  # fmt: skip
        return await self._change(campaign_id, CampaignAction.START)

    async def pause_campaign(self, campaign_id: CampaignId, caller: OperateCaller) -> CampaignDetail:
        """Pause it. What waits in the queues is taken back; what a worker has leaves."""
        return await self._noted(campaign_id, CampaignAction.PAUSE, caller)

    async def resume_campaign(self, campaign_id: CampaignId, caller: OperateCaller) -> CampaignDetail:
        """Go on with a paused campaign: those who still wait are written to, nobody twice."""
        return await self._noted(campaign_id, CampaignAction.RESUME, caller)

    async def cancel_campaign(self, campaign_id: CampaignId, caller: OperateCaller) -> CampaignDetail:
        """End it. Who was not written to by now is not written to."""
        return await self._noted(campaign_id, CampaignAction.CANCEL, caller)

    async def _noted(self, campaign_id: str, action: CampaignAction, caller: Caller) -> CampaignDetail:
        """Change a campaign. The audit log gets what has happened: nothing that was refused."""
        changed = await self._change(campaign_id, action)
        await self._audit(caller, f"campaign.{action}", campaign_id)
        return changed

    async def _find(self, campaign_id: str) -> Campaign:
        found = await campaign_records.find(self._scripts, campaign_id)
        if found is None:
            raise Refused("NO_SUCH_CAMPAIGN", "There is no such campaign. GET /api/v1/campaigns lists them.", 404)
        return found

    async def _change(self, campaign_id: str, action: CampaignAction) -> CampaignDetail:
        for _ in range(_TRIES):
            campaign = await self._find(campaign_id)
            state = _after(campaign, action)
            if state is campaign.state:
                return await self._detail(campaign)
            why = PauseReason.OPERATOR if state is CampaignState.PAUSED else ""
            bans = campaign_senders.banned_phones(campaign, await self._pool.current(fresh_s=0))
            outcome = await campaign_records.change(self._scripts, campaign, state, why=why, bans=bans)
            if isinstance(outcome, StateChanged):
                return await self._detail(await self._find(campaign_id))
        raise Unavailable("CAMPAIGN_BUSY", "The campaign is being changed by others. Try again.")

    async def _detail(self, campaign: Campaign) -> CampaignDetail:
        tally = await campaign_rows.tally(self._scripts, campaign.id)
        end = await self._ends.of(campaign)
        return campaign_models.detail(campaign, tally, end, batch_of(campaign.id))

    async def _recipients(self, campaign_id: str, rows: list[int]) -> list[CampaignRecipient]:
        people = await campaign_rows.recipients(self._scripts, campaign_id, rows)
        outcomes = await campaign_rows.outcomes(self._scripts, campaign_id, rows)
        marks = await campaign_answers.marks(self._scripts, campaign_id, rows)
        found = []
        for row in rows:
            outcome, (answered, stopped) = outcomes.get(row), marks[row]
            found.append(
                CampaignRecipient(
                    row=row,
                    to=people[row].to if row in people else "",
                    status=outcome.status if outcome else "waiting",
                    message_id=outcome.message_id if outcome else "",
                    session_id=outcome.session if outcome else "",
                    at=iso(outcome.at_ms) if outcome else None,
                    answered=answered,
                    opted_out_since=stopped,
                )
            )
        return found


def _after(campaign: Campaign, action: CampaignAction) -> CampaignState:
    """Return the state that an action leads to. Raises `Refused` where it cannot happen."""
    state = campaigns.after(campaign.state, action)
    if state is None:
        text = f"The campaign is {campaign.state}; it cannot be changed this way any more, or not yet."
        raise Refused("CAMPAIGN_STATE", text, 409, state=str(campaign.state))
    return state


def _is_listed(recipient: CampaignRecipient, status: str | None) -> bool:
    match status:
        case None:
            return True
        case "answered":
            return recipient.answered
        case "opted_out_since":
            return recipient.opted_out_since
        case _:
            return recipient.status == status
