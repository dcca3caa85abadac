"""Campaigns pages: the list, and one campaign with its bar, its plan by day and its recipients."""

from collections.abc import Mapping, Sequence
from datetime import datetime, time
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.html.locale import Locale
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain.campaigns import template
from wa_orchestrator.domain.campaigns.campaign import ENDED, CampaignState
from wa_orchestrator.gateway.campaigns.end_date import EndDate
from wa_orchestrator.store.campaigns import campaign_answers, campaign_records, campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign
from wa_orchestrator.store.campaigns.campaign_rows import Tally

#: Recipients per page.
ROWS: Final = 50
#: The parts of the bar, in their order; what is in none of them is still to come.
SHOWN: Final = ("read", "delivered", "sent", "unknown", "failed")
#: Ends without a message, or with none that anybody got.
_NOT_SENT: Final = ("failed", "cancelled", "expired", "opted_out")
_NOTHING: Final = EndDate(0, (), 0, 0)


async def show_all(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    tags = sorted(
        {name for row in view.snapshot.rows.values() for name in (row.session.label, *row.session.tags) if name}
    )
    values = {"tags": tags, "stop_word": _stop_word(view, renderer.context.settings.stop_words)}
    return PageContent("campaigns.html", await list_parts(renderer, view, query), values, {"page": "campaigns"})


async def list_parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    scripts = renderer.context.scripts
    found = await campaign_records.newest(scripts)
    rows = [(each, bar_of(each, await campaign_rows.tally(scripts, each.id))) for each in found]
    tallies = {each.id: await campaign_rows.tally(scripts, each.id) for each in found}
    sending = sum(each.state is CampaignState.SENDING for each in found)
    paused = sum(each.state is CampaignState.PAUSED for each in found)
    macros = renderer.campaigns
    return {
        "headline": macros.headline(view, len(found), sending, paused),
        "campaign-list": macros.listed(view, rows, tallies),
    }


async def show_one(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent | None:
    campaign = await campaign_records.find(renderer.context.scripts, query.get("id", ""))
    if campaign is None:
        return None
    watch = {"page": "campaign", "id": campaign.id, "from": query.get("from", "")}
    return PageContent("campaign.html", await parts(renderer, view, query), {"campaign": campaign}, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    scripts, macros = renderer.context.scripts, renderer.campaigns
    campaign = await campaign_records.find(scripts, query.get("id", ""))
    if campaign is None:
        return {}
    tally = await campaign_rows.tally(scripts, campaign.id)
    end = _NOTHING if campaign.state in ENDED else await renderer.campaign_ends.of(campaign)
    first = int(query.get("from") or 0) if (query.get("from") or "0").isdecimal() else 0
    rows = list(range(first + 1, min(first + ROWS, campaign.total) + 1))
    people = await campaign_rows.recipients(scripts, campaign.id, rows)
    outcomes = await campaign_rows.outcomes(scripts, campaign.id, rows)
    marks = await campaign_answers.marks(scripts, campaign.id, rows)
    shown = [(row, people.get(row), outcomes.get(row), *marks[row]) for row in rows]
    days = [(_noon_ms(view, day), count) for day, count in end.days]
    return {
        "campaign-head": macros.head(view, campaign, tally.waiting),
        "campaign-progress": macros.progress(
            view, campaign, tally, bar_of(campaign, tally), end, template.single_braced(campaign.text)
        ),
        "campaign-people": macros.people(view, campaign, shown, first, ROWS),
        "campaign-answers": macros.answers(view, tally),
        "campaign-days": macros.days(view, campaign, days),
    }


def bar_of(campaign: Campaign, tally: Tally) -> dict[str, int]:
    """Return how many recipients are in which part of the bar; they sum up to all."""
    counts = dict(tally.by_status)
    bar = {name: counts.get(name, 0) for name in SHOWN}
    bar["failed"] = sum(counts.get(name, 0) for name in _NOT_SENT)
    return bar | {"waiting": max(0, campaign.total - sum(bar.values()))}


def _stop_word(view: Locale, words: Sequence[str]) -> str:
    """Return a stop word for an example, in the person's script if there is one."""
    return next((word for word in words if word.isascii() == (view.direction == "ltr")), words[0])


def _noon_ms(view: Locale, day: object) -> int:
    """Return an instant of a day, for its name."""
    return round(datetime.combine(day, time(12), tzinfo=view.zone).timestamp() * 1000)  # type: ignore[arg-type]
