"""Fleet page: what needs a person, messages of today, proxies, all sessions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet import attention, history
from wa_orchestrator.dashboard.fleet.availability import Day
from wa_orchestrator.dashboard.fleet.snapshot import Row, natural
from wa_orchestrator.dashboard.html import charts
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.store.events.activity import HOUR_MS

PAGE_SIZE: Final = 50
#: From this many sessions on the table is dense and there is a map.
MANY: Final = 100
#: Where what needs attention is put as soon as there is something.
NO_ATTENTION: Final = Markup('<div id="attention"></div>')


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    """Show the sessions that match the filter; in an installation without any, the first steps."""
    if not view.snapshot.rows and not view.is_limited:
        first = await first_parts(renderer, view, query)
        return PageContent("first.html", first, {"lost": bool(_lost(view))}, {"page": "first"})
    found = filtered(view, query)
    page = max(0, min(number_in(query, "page"), (len(found) - 1) // PAGE_SIZE))
    shown = found[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
    days = await history.days(renderer.context.scripts, [row.session for row in shown], view.now_ms)
    parts = await _parts(renderer, view, query, shown)
    values = {
        "rows": shown,
        "strips": {name: draw(view, day) for name, day in days.items()},
        "found": len(found),
        "page": page,
        "page_size": PAGE_SIZE,
        "query": {name: query.get(name, "") for name in ("state", "q", "tag")} | {"sort": _order(query)},
        "dense": len(view.snapshot.rows) >= MANY,
        "groups": groups(view) if len(view.snapshot.rows) >= MANY else [],
    }
    watch = {"page": "fleet", "ids": ",".join(row.id for row in shown), "found": str(len(found))}
    watch |= {name: query.get(name, "") for name in ("state", "q", "tag")}
    return PageContent("fleet.html", parts, values, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the live parts: cells of the rows on the page, and everything above the table."""
    ids = [name for name in query.get("ids", "").split(",") if name]
    rows = [view.snapshot.rows[name] for name in ids if name in view.snapshot.rows]
    gone = {f"row-{name}": Markup("") for name in ids if name not in view.snapshot.rows}
    left = len(gone) + len([row for row in rows if not _passes(view, row, query)])
    newer = len(filtered(view, query)) - (number_in(query, "found") - left)
    return await _parts(renderer, view, query, rows) | gone | {"newer": renderer.macros.newer(view, newer)}


async def first_parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the first steps of an installation without a session."""
    m, lost = renderer.macros, _lost(view)
    per_day = renderer.context.settings.pace(Trust.COLD).per_day
    return {
        "first-steps": m.first_steps(view, per_day),
        "attention": m.attention(view, lost, []) if lost else NO_ATTENTION,
    }


def _lost(view: View) -> list[attention.Item]:
    """What is worse than having no session yet: they were lost, or the server cannot work."""
    return [item for item in attention.items(view.snapshot, view) if item.state == "failed"]


async def _parts(renderer: Renderer, view: View, query: Mapping[str, str], rows: Sequence[Row]) -> dict[str, Markup]:
    m, scripts = renderer.macros, renderer.context.scripts
    items = attention.items(view.snapshot, view)
    sent, failed = await history.per_hour(scripts, view.now_ms)
    depths = await history.depths(scripts, view.now_ms)
    if view.is_limited:  # the past is counted for all sessions together
        sent, failed, depths = [0] * len(sent), [0] * len(failed), [-1] * len(depths)
    bars = charts.bars(sent, failed, view.plain("fleet.per_hour_label", most=max(sent)))
    depths[-1] = max(depths[-1], view.snapshot.waiting.total)  # the last sample may be a minute old
    deepest = max(0, *depths)
    hours = [view.now_ms - back * HOUR_MS for back in (23, 17, 11, 5)]
    area = charts.area(depths, view.plain("fleet.queue_label", most=deepest))
    made = {
        "headline": m.headline(view),
        "holding": m.holding(view),
        "attention": m.attention(view, items[: attention.MAX_SHOWN], items[attention.MAX_SHOWN :]),
        "figures": m.figures(view),
        "per-hour": m.per_hour(view, bars, charts.top_of(sent, failed), area, deepest, hours),
        "pool": m.pool(view),
        "chips": m.chips(view, query.get("state", ""), query.get("q", ""), query.get("tag", "")),
        "newer": m.newer(view, 0),
    }
    for row in rows:
        made |= {
            f"na-{row.id}": m.name_cell(view, row),
            f"st-{row.id}": m.state_cell(view, row),
            f"tr-{row.id}": m.trust_cell(view, row),
            f"bd-{row.id}": m.budget_cell(view, row),
            f"qu-{row.id}": m.queue_cell(view, row),
            f"pr-{row.id}": m.proxy_cell(view, row),
            f"pg-{row.id}": m.ping_cell(view, row),
            f"ac-{row.id}": m.action_cell(view, row),
        }
    return made


def draw(view: View, day: Day, *, tall: bool = False) -> Markup:
    return charts.strip(day.beats, view.plain("strip.label", share=share_of(view, day)), tall=tall)


def share_of(view: View, day: Day) -> Markup:
    return view.t("strip.never") if day.share is None else view.percent(day.share)


def filtered(view: View, query: Mapping[str, str]) -> list[Row]:
    found = [row for row in view.snapshot.sorted_rows() if _passes(view, row, query)]
    match _order(query):
        case "name":
            return sorted(found, key=lambda row: natural(row.name))
        case "queue":
            return sorted(found, key=lambda row: -row.queued)
    return found


def _order(query: Mapping[str, str]) -> str:
    """Return by what the sessions are sorted; empty: those that need a person first."""
    return query["sort"] if query.get("sort") in ("name", "queue") else ""


def _passes(view: View, row: Row, query: Mapping[str, str]) -> bool:
    state, text, tag = query.get("state", ""), query.get("q", ""), query.get("tag", "")
    fits = (not state or row.state == state) and (not tag or tag in row.session.tags)
    return fits and (not text.strip() or row.matches(text, view.snapshot.proxy_called(row.session.proxy)))


def groups(view: View) -> list[tuple[str, list[Row]]]:
    """Group sessions for the map by their label without its number."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(view.snapshot.rows.values(), key=lambda row: natural(row.name)):
        found[row.session.label.rstrip("0123456789 #-_.")[:40]].append(row)
    large = {name: rows for name, rows in found.items() if name and len(rows) > 1}
    rest = [row for name, rows in found.items() if name not in large for row in rows]
    others = [(view.t("map.others").striptags(), rest)] if rest else []
    return [*sorted(large.items(), key=lambda pair: -len(pair[1])), *others]


def number_in(query: Mapping[str, str], name: str) -> int:
    """Return a small number of the query; 0 if it is missing or no number."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
