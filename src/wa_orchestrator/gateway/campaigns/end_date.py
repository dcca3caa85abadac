"""When a campaign ends: the forecast of each sender's queue, with the recipients shared out as the feeder does it.

Campaigns that were started before come first, as they do with the feeder: a phone has three places for all of them.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from time import monotonic
from typing import Final
from zoneinfo import ZoneInfo

from wa_orchestrator.context import Context
from wa_orchestrator.domain import number_health
from wa_orchestrator.domain.campaigns import plan
from wa_orchestrator.domain.campaigns.campaign import CampaignState
from wa_orchestrator.domain.campaigns.plan import LeavesAt
from wa_orchestrator.domain.number_health import StrangerWarning
from wa_orchestrator.domain.pacing.forecast import Forecast
from wa_orchestrator.gateway.campaigns import campaign_senders
from wa_orchestrator.gateway.senders.sender_pool import PoolSnapshot, Sender, SenderPool
from wa_orchestrator.messages.queue_forecast import facts_of, forecast_of
from wa_orchestrator.store.campaigns import campaign_records, campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign
from wa_orchestrator.store.conversations import conversation_index
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.timestamps import FOREVER_MS

#: A campaign of thousands takes a tenth of a second to forecast, and its page asks once a second.
_FRESH_S: Final = 10.0
_CHUNK: Final = 1_000
_MOST_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class EndDate:
    """When the last message leaves (0 = unknown), how many leave on which day, and by how many phones."""

    at_ms: int
    days: Sequence[tuple[date, int]]
    senders: int
    cold: int
    """Sessions that are left out because they were linked lately."""
    never_wrote: int = 0
    """Recipients still to come who have no conversation with any session."""
    warnings: tuple[StrangerWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shares:
    """How a campaign's recipients are shared out: the senders' queues, how many each gets (None = nobody can say)."""

    queues: Mapping[str, LeavesAt]
    counts: Mapping[str, int] | None
    phones: Mapping[str, str]
    people: Sequence[str]

    @property
    def by_phone(self) -> dict[str, int]:
        """How many wait for each phone."""
        return {self.phones[name]: count for name, count in (self.counts or {}).items()}


class EndDates:
    """Forecasts campaigns, each at most once in `_FRESH_S` while nothing about it changes."""

    def __init__(self, context: Context, pool: SenderPool) -> None:
        self._context = context
        self._pool = pool
        self._known: dict[str, tuple[float, object, EndDate]] = {}

    async def of(self, campaign: Campaign) -> EndDate:
        """Return when a campaign ends if it goes on now."""
        now_s = monotonic()
        at_s, version, known = self._known.get(campaign.id, (0.0, None, EndDate(0, (), 0, 0)))
        if version == campaign and now_s - at_s < _FRESH_S:
            return known
        found = await self._forecast(campaign)
        self._known = {name: each for name, each in self._known.items() if now_s - each[0] < _FRESH_S}
        self._known[campaign.id] = (now_s, campaign, found)
        return found

    async def _forecast(self, campaign: Campaign) -> EndDate:
        pool = await self._pool.current()
        senders = campaign_senders.usable(campaign, pool)
        cold = 0
        if not campaign.with_cold:
            cold = sum(campaign_senders.is_cold(each, pool) for each in campaign_senders.named(campaign, pool))
        taken: Counter[str] = Counter()
        for earlier in await self._earlier(campaign):
            taken.update((await self._shared_out(earlier, pool, taken)).by_phone)
        own = await self._shared_out(campaign, pool, taken)
        times = None if own.counts is None else await asyncio.to_thread(plan.leave_times, own.queues, own.counts)
        never_wrote = await self._never_wrote(own.people)
        days = Counter(self._day(at_ms) for at_ms in times or ())
        warnings = number_health.campaign_warnings(
            never_wrote=never_wrote,
            new_senders=sum(campaign_senders.is_cold(each, pool) for each in senders),
            poor_senders=sum(each.standing.is_poor for each in senders),
        )
        return EndDate(times[-1] if times else 0, sorted(days.items()), len(senders), cold, never_wrote, warnings)

    async def _earlier(self, campaign: Campaign) -> list[Campaign]:
        """Return the campaigns that send before this one does, in their order."""
        order = (campaign.started_at or FOREVER_MS, campaign.id)
        return [
            each
            for each in await campaign_records.active(self._context.scripts)
            if each.state is CampaignState.SENDING and (each.started_at, each.id) < order
        ]

    async def _shared_out(self, campaign: Campaign, pool: PoolSnapshot, taken: Mapping[str, int]) -> _Shares:
        """Share the recipients still to come out to the senders; `taken` waits for their phones from earlier ones."""
        senders = {str(each.session.id): each for each in campaign_senders.usable(campaign, pool)}
        queues = {name: await self._queue(each, taken.get(each.session.phone, 0)) for name, each in senders.items()}
        people = await self._people(campaign)
        talking = [name for name in await self._talking(people) if name in queues]
        # Thousands of decisions: others get their turn meanwhile.
        counts = await asyncio.to_thread(plan.shares, queues, Counter(talking), len(people) - len(talking))
        return _Shares(queues, counts, {name: str(each.session.phone) for name, each in senders.items()}, people)

    async def _queue(self, sender: Sender, taken: int) -> LeavesAt:
        facts = await facts_of(self._context.scripts, sender.session)
        forecast = forecast_of(self._context.settings, sender.session, facts, share=plan.SHARE)
        return partial(_leaves_at, forecast, campaign_senders.waits_for(sender) + taken)

    async def _people(self, campaign: Campaign) -> list[str]:
        """Return the recipients still to come."""
        scripts = self._context.scripts
        rows = await campaign_rows.waiting(scripts, campaign.id, most=_MOST_ROWS)
        chunks = [rows[first : first + _CHUNK] for first in range(0, len(rows), _CHUNK)]
        found = [await campaign_rows.recipients(scripts, campaign.id, chunk) for chunk in chunks]
        return [each.to for people in found for each in people.values()]

    async def _talking(self, people: Sequence[str]) -> list[str]:
        """Return the session of each conversation that these people have."""
        found: list[str] = []
        for first in range(0, len(people), _CHUNK):
            found += filter(None, await contacts.affinities(self._context.scripts, people[first : first + _CHUNK]))
        return found

    async def _never_wrote(self, people: Sequence[str]) -> int:
        """Count those of these people who never wrote to one of our phones."""
        chunks = [people[first : first + _CHUNK] for first in range(0, len(people), _CHUNK)]
        return sum([await conversation_index.count_without(self._context.scripts, chunk) for chunk in chunks])

    def _day(self, at_ms: int) -> date:
        return datetime.fromtimestamp(at_ms / 1000, tz=ZoneInfo(self._context.settings.timezone)).date()


def _leaves_at(forecast: Forecast, waits: int, place: int) -> int | None:
    return forecast.eta(waits + forecast.in_flight + place).at_ms
