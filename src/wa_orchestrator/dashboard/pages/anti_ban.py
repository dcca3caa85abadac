"""The human pace: limits by trust, what is held and why, who is near their limit, who opted out."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Row
from wa_orchestrator.dashboard.fleet.snapshot_reader import opt_outs
from wa_orchestrator.dashboard.html.renderer import Desk, Shown, View
from wa_orchestrator.domain.pacing.limits import PRESETS, Preset, Trust

_NEAREST: Final = 12
_OPT_OUTS_SHOWN: Final = 8


async def show(desk: Desk, view: View, query: Mapping[str, str]) -> Shown:
    """Show the preset's limits and what departs from them."""
    settings = desk.context.settings
    preset = query.get("preset", "")
    chosen = Preset(preset) if preset in tuple(Preset) else None
    paces = {trust: PRESETS[chosen][trust] if chosen else settings.pace(trust) for trust in Trust}
    rows = nearest(view, query.get("q", ""))
    parts = await _parts(desk, view, rows, everyone="all" in query)
    values = {
        "paces": paces,
        "preset": chosen or Preset(settings.pacing_preset),
        "in_force": Preset(settings.pacing_preset),
        "own_numbers": chosen is None,
        "rows": rows,
        "query": query,
        "presets": {row.id: settings.pace(row.trust) for row in rows},
    }
    watch = {"page": "anti-ban", "ids": ",".join(row.id for row in rows)} | ({"all": "1"} if "all" in query else {})
    return Shown("anti-ban.html", parts, values, watch)


async def parts(desk: Desk, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    """Render what changes by itself."""
    ids = [name for name in query.get("ids", "").split(",") if name]
    rows = [view.snapshot.rows[name] for name in ids if name in view.snapshot.rows]
    return await _parts(desk, view, rows, everyone="all" in query)


async def _parts(desk: Desk, view: View, rows: list[Row], *, everyone: bool) -> dict[str, Markup]:
    m = desk.macros
    out = await opt_outs(desk.context)
    made = desk.frame_parts(view) | {
        "holding": m.holding(view),
        "trust-counts": m.trust_counts(view, Counter(row.trust for row in view.snapshot.rows.values())),
        "held": m.held(view, held(view), labels(view)),
        "opt-outs": m.opt_outs(view, out if everyone else out[:_OPT_OUTS_SHOWN], len(out)),
    }
    for row in rows:
        made[f"bd-{row.id}"] = m.near_budget(view, row)
        made[f"mi-{row.id}"] = m.minute_cell(view, row)
    return made


def nearest(view: View, text: str) -> list[Row]:
    """The sessions that have used most of their day; or those that a search finds."""
    rows = [row for row in view.snapshot.rows.values() if not text.strip() or row.matches(text)]
    return sorted(rows, key=lambda row: (-row.sent_today / row.pace.per_day, -row.queued, row.id))[:_NEAREST]


def labels(view: View) -> list[str]:
    """The names of groups: every label that a session has."""
    return sorted({row.session.label for row in view.snapshot.rows.values() if row.session.label})


def held(view: View) -> list[tuple[str, Row | None, Mapping[str, object]]]:
    """What is held: everything, groups, phones, sessions; then sessions whose pauses are doubled after a burst."""
    snapshot = view.snapshot
    named = {f"phone:{row.session.phone}": row for row in reversed(snapshot.sorted_rows())}
    named |= {f"session:{row.id}": row for row in snapshot.rows.values()}
    found: list[tuple[str, Row | None, Mapping[str, object]]] = []
    for name, hold in sorted(snapshot.holds.items(), key=lambda pair: (pair[0] != "all", pair[0])):
        found.append((name, named.get(name), hold))
    found += [
        (f"burst:{row.id}", row, {"until_ms": row.burst_until})
        for row in snapshot.sorted_rows()
        if row.burst_until > view.now_ms
    ]
    return found
