"""Request bodies and responses of the campaign routes."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from wa_orchestrator.domain.campaigns import template
from wa_orchestrator.domain.campaigns.campaign import CampaignState, PauseReason
from wa_orchestrator.domain.messages.content import LONGEST_TEXT
from wa_orchestrator.domain.number_health import WarningCode
from wa_orchestrator.gateway.campaigns.end_date import EndDate
from wa_orchestrator.gateway.request_models import Line
from wa_orchestrator.store.campaigns.campaign_records import Campaign
from wa_orchestrator.store.campaigns.campaign_rows import Tally
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.models import (
    LabelNames,
    NextCursor,
    OptionalText,
    OptionalTimestamp,
    RequestModel,
    ResponseModel,
    SessionNames,
    Timestamp,
)

#: Longer lists belong into several campaigns: they would take months.
MOST_RECIPIENTS = 20_000


class CampaignBody(RequestModel):
    """A campaign: a text, its recipients as CSV, and where they agreed to it."""

    name: Annotated[Line, Field(min_length=1, max_length=100, examples=["November price list"])]
    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=LONGEST_TEXT,
            description="`{{name}}` stands for the column `name`. It must say how to stop, with a word of STOP_WORDS.",
            examples=["Hello {{name}}, the new price list is here. To stop, answer STOP."],
        ),
    ]
    csv: Annotated[
        str,
        Field(
            min_length=1,
            description="The first line names the columns; one of them is `phone`.",
            examples=["phone,name\n972501234567,Dana\n"],
        ),
    ]
    consent: Annotated[
        str,
        Field(
            min_length=10,
            max_length=1000,
            description="Where the recipients agreed to hear from this account. It goes into the audit log.",
            examples=["They ticked the box on the order form, see CRM list 'newsletter'."],
        ),
    ]
    sessions: SessionNames = Field([], description="Sessions that send it; without these and `tags`: all.")
    tags: LabelNames = Field([], description="Sessions with one of these labels or tags send it.")
    with_cold: bool = Field(False, description="Let accounts that were linked within the last three days send too.")
    skip_bad_lines: bool = Field(False, description="Skip lines with errors; without it they are refused.")


class CampaignCounts(ResponseModel):
    """Where the recipients are: each is in exactly one of these."""

    waiting: int = Field(description="Still to come.")
    queued: int = Field(0, description="Handed to the queues, or being sent.")
    sent: int = 0
    delivered: int = 0
    read: int = 0
    unknown: int = Field(0, description="Perhaps sent: WhatsApp never confirmed it.")
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    opted_out: int = Field(0, description="Opted out before their turn; nothing was sent to them.")


class CampaignDay(ResponseModel):
    """How many messages leave on a day."""

    date: str = Field(examples=["2026-01-31"])
    messages: int


class CampaignSummary(ResponseModel):
    """A campaign, and where its recipients are."""

    id: str = Field(examples=["c_0a1b2c3d4e5f607182"])
    name: str
    state: CampaignState
    paused_because: PauseReason | None
    recipients: int = Field(description="How many are written to.")
    counts: CampaignCounts
    answered: int = Field(description="How many wrote to one of our phones since they got it.")
    opted_out_since: int
    created_at: Timestamp
    started_at: OptionalTimestamp
    ended_at: OptionalTimestamp


class CampaignWarning(ResponseModel):
    """Why a campaign may harm the phones that send it. It can be started all the same."""

    code: WarningCode
    count: int = Field(
        description="With `STRANGERS_IN_A_ROW` the recipients who never wrote, with `NEW_NUMBER` and `POOR_HEALTH` the "
        "phones among the senders that were linked lately, or whose number health is poor."
    )


class CampaignDetail(CampaignSummary):
    """A campaign with its text and its plan."""

    text: str
    consent: str
    sessions: Sequence[str]
    tags: Sequence[str]
    with_cold: bool
    single_braced: Sequence[str] = Field(
        description="What the text names as {name}: that fills nothing, and people would read it. Fields are {{name}}.",
        examples=[["name"]],
    )
    doubles: int = Field(description="Lines that were left out because they repeat a number.")
    opted_out_before: int = Field(description="Left out because they had opted out.")
    batch_id: str = Field(description="`GET /api/v1/messages?batchId=` finds its messages.")
    ends_at: OptionalTimestamp = Field(description="When the last message leaves if it goes on now; null: unknown.")
    days: Sequence[CampaignDay] = Field(description="How many of those who wait are written to on which day.")
    senders: int = Field(description="By how many phones.")
    cold_senders: int = Field(description="Phones that are left out because they were linked lately.")
    never_wrote: int = Field(description="Of the recipients still to come, those who never wrote to one of our phones.")
    warnings: list[CampaignWarning]


class CampaignsResponse(ResponseModel):
    """All campaigns, the newest first."""

    campaigns: list[CampaignSummary]


class CampaignRecipient(ResponseModel):
    """A recipient, and what became of them."""

    row: int
    to: OptionalText = Field(description="Null once the person was erased.")
    status: str = Field(description="`waiting`, or one of the counts.")
    message_id: OptionalText
    session_id: OptionalText
    at: OptionalTimestamp
    answered: bool
    opted_out_since: bool


class CampaignRecipientPage(ResponseModel):
    """A page of recipients, in the order of the file."""

    recipients: list[CampaignRecipient]
    next: NextCursor


RecipientFilter = Literal[
    "waiting", "queued", "sent", "delivered", "read", "unknown", "failed", "cancelled", "expired", "opted_out",
    "answered", "opted_out_since",
]  # fmt: skip


def summary(campaign: Campaign, tally: Tally) -> CampaignSummary:
    return CampaignSummary.of(campaign, **_common(campaign, tally))


def detail(campaign: Campaign, tally: Tally, end: EndDate, batch_id: str) -> CampaignDetail:
    return CampaignDetail.of(
        campaign,
        **_common(campaign, tally),
        batch_id=batch_id,
        single_braced=template.single_braced(campaign.text),
        ends_at=end.at_ms,
        days=[CampaignDay(date=day.isoformat(), messages=count) for day, count in end.days],
        senders=end.senders,
        cold_senders=end.cold,
        never_wrote=end.never_wrote,
        warnings=[CampaignWarning(code=each.code, count=each.count or 0) for each in end.warnings],
    )


def _common(campaign: Campaign, tally: Tally) -> dict[str, object]:
    known = {name: count for name, count in tally.by_status.items() if name in CampaignCounts.model_fields}
    return {
        "paused_because": campaign.why or None if campaign.state is CampaignState.PAUSED else None,
        "recipients": campaign.total,
        "counts": CampaignCounts(waiting=tally.waiting, **known),
        "answered": tally.answered,
        "opted_out_since": tally.opted_out,
        "created_at": iso(campaign.created_at),
        "started_at": campaign.started_at,
        "ended_at": campaign.ended_at,
    }
