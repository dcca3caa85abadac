"""When a campaign ends: the forecast of each sender's queue, with the recipients shared out as the feeder does it."""

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
from wa_orchestrator.domain.campaigns.plan import LeavesAt
from wa_orchestrator.domain.number_health import StrangerWarning
from wa_orchestrator.domain.pacing.forecast import Forecast
from wa_orchestrator.gateway.campaigns import campaign_senders
from wa_orchestrator.gateway.senders.sender_pool import Sender, SenderPool
from wa_orchestrator.messages.queue_forecast import facts_of, forecast_of
from wa_orchestrator.store.campaigns import campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign
from wa_orchestrator.store.conversations import conversation_index
from wa_orchestrator.store.messages import contacts

#: A campaign of thousands takes a tenth of a second to forecast, and its page asks once a second.
_FRESH_S: Final = 10.0
_CHUNK: Final = 1_000
_MOST_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class EndDate:
    """When the last message leaves (0 = nobody can say), how many leave on which day, and by how many phones."""

    at_ms: int
    days: Sequence[tuple[date, int]]
    senders: int
    cold: int
    """Sessions that are left out because they were linked lately."""
    never_wrote: int = 0
    """Recipients still to come who have no conversation with any session."""
    warnings: tuple[StrangerWarning, ...] = ()


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
        queues = {str(sender.session.id): await self._queue(sender) for sender in senders}
        bound, never_wrote = await self._people(campaign, queues)
        rows = await campaign_rows.waiting(self._context.scripts, campaign.id, most=_MOST_ROWS)
        free = len(rows) - sum(bound.values())
        # Thousands of decisions: others get their turn meanwhile.
        times = await asyncio.to_thread(plan.leave_times, queues, bound, free)
        days = Counter(self._day(at_ms) for at_ms in times or ())
        warnings = number_health.campaign_warnings(
            never_wrote=never_wrote,
            new_senders=sum(campaign_senders.is_cold(each, pool) for each in senders),
            poor_senders=sum(each.standing.is_poor for each in senders),
        )
        return EndDate(times[-1] if times else 0, sorted(days.items()), len(senders), cold, never_wrote, warnings)

    async def _queue(self, sender: Sender) -> LeavesAt:
        facts = await facts_of(self._context.scripts, sender.session)
        forecast = forecast_of(self._context.settings, sender.session, facts, share=plan.SHARE)
        return partial(_leaves_at, forecast, campaign_senders.waits_for(sender))

    async def _people(self, campaign: Campaign, queues: Mapping[str, LeavesAt]) -> tuple[Counter[str], int]:
        """Count the recipients whose conversation is with one of the senders, and those who never wrote to any."""
        scripts = self._context.scripts
        rows = await campaign_rows.waiting(scripts, campaign.id, most=_MOST_ROWS)
        found: Counter[str] = Counter()
        never_wrote = 0
        for first in range(0, len(rows), _CHUNK):
            people = await campaign_rows.recipients(scripts, campaign.id, rows[first : first + _CHUNK])
            recipients = [each.to for each in people.values()]
            found.update(filter(None, await contacts.affinities(scripts, recipients)))
            never_wrote += await conversation_index.count_without(scripts, recipients)
        return Counter({name: count for name, count in found.items() if name in queues}), never_wrote

    def _day(self, at_ms: int) -> date:
        return datetime.fromtimestamp(at_ms / 1000, tz=ZoneInfo(self._context.settings.timezone)).date()


def _leaves_at(forecast: Forecast, waits: int, place: int) -> int | None:
    return forecast.eta(waits + forecast.in_flight + place).at_ms
