"""Anti-ban page: limits by trust, holds, sessions near their limit, opt-outs."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Row
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain.pacing.limits import PRESETS, Pace, Preset, Trust
from wa_orchestrator.domain.pacing.tag_limits import TagLimit, under_tags
from wa_orchestrator.messages.session_pace import decode_tag_limit
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.sessions import tag_limits
from wa_orchestrator.store.sessions.labels import labels_of

_NEAREST: Final = 12
_OPT_OUTS_SHOWN: Final = 8
_MAX_OPT_OUTS: Final = 200


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    settings = renderer.context.settings
    preset = query.get("preset", "")
    chosen = Preset(preset) if preset in tuple(Preset) else None
    paces = {trust: PRESETS[chosen][trust] if chosen else settings.pace(trust) for trust in Trust}
    rows = nearest(view, query.get("q", ""))
    parts = await _parts(renderer, view, rows, everyone="all" in query)
    values = {
        "paces": paces,
        "preset": chosen or Preset(settings.pacing_preset),
        "in_force": Preset(settings.pacing_preset),
        "rows": rows,
        "query": query,
        "presets": {row.id: settings.pace(row.trust) for row in rows},
    }
    watch = {"page": "anti-ban", "ids": ",".join(row.id for row in rows)} | ({"all": "1"} if "all" in query else {})
    return PageContent("anti-ban.html", parts, values, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    ids = [name for name in query.get("ids", "").split(",") if name]
    rows = [view.snapshot.rows[name] for name in ids if name in view.snapshot.rows]
    return await _parts(renderer, view, rows, everyone="all" in query)


async def _parts(renderer: Renderer, view: View, rows: list[Row], *, everyone: bool) -> dict[str, Markup]:
    m = renderer.macros
    groups = sorted({name for row in view.snapshot.rows.values() for name in labels_of(row.session)})
    # The list is of all sessions: whoever sees some of them only may add to it, but not read it.
    stored = [] if view.is_limited else await contacts.opt_outs(renderer.context.scripts)
    opt_outs = sorted(stored, key=lambda each: -each.at_ms)
    shown = opt_outs[: _MAX_OPT_OUTS if everyone else _OPT_OUTS_SHOWN]
    made = {
        "holding": m.holding(view),
        "trust-counts": m.trust_counts(view, Counter(row.trust for row in view.snapshot.rows.values())),
        "held": m.held(view, held(view), groups),
        "tag-limits": m.tag_limits(view, await _limits_by_tag(renderer, view), known_tags(view)),
        "opt-outs": m.opt_outs(view, shown, len(opt_outs)),
    }
    for row in rows:
        made[f"bd-{row.id}"] = m.near_budget(view, row)
        made[f"mi-{row.id}"] = m.minute_cell(view, row)
    return made


async def _limits_by_tag(renderer: Renderer, view: View) -> list[tuple[TagLimit, int, Mapping[Trust, Pace]]]:
    """Return the limits of tags, how many sessions have each tag, and what they get by trust.

    Whoever sees some sessions only sees the tags of those.
    """
    settings, counts = renderer.context.settings, Counter(known_tags(view, each_once=False))
    stored = [decode_tag_limit(text) for text in (await tag_limits.read(renderer.context.scripts)).values()]
    return [
        (limit, counts[limit.tag], {trust: under_tags(settings.pace(trust), [limit]) for trust in Trust})
        for limit in stored
        if counts[limit.tag] or not view.is_limited
    ]


def known_tags(view: View, *, each_once: bool = True) -> list[str]:
    """Return the tags of all sessions, sorted."""
    found = [tag for row in view.snapshot.rows.values() for tag in row.session.tags]
    return sorted(set(found) if each_once else found)


def nearest(view: View, text: str) -> list[Row]:
    """Return the sessions nearest to their daily limit, of those that match a search."""
    rows = [row for row in view.snapshot.rows.values() if not text.strip() or row.matches(text)]
    return sorted(rows, key=lambda row: (-row.sent_today / row.pace.per_day, -row.queued, row.id))[:_NEAREST]


def held(view: View) -> list[tuple[str, Row | None, Hold]]:
    """Return the holds on all, groups, phones and sessions; then what WhatsApp restricts, then bursts."""
    snapshot = view.snapshot
    named = {f"phone:{row.session.phone}": row for row in reversed(snapshot.sorted_rows())}
    named |= {f"session:{row.id}": row for row in snapshot.rows.values()}
    holds = sorted(snapshot.holds.items(), key=lambda pair: (pair[0] != "all", pair[0]))
    locks = [row for row in snapshot.sorted_rows() if row.lock_until > view.now_ms]
    caps = [row for row in snapshot.sorted_rows() if row.cap_until > view.now_ms]
    slowed = [row for row in snapshot.sorted_rows() if row.is_slowed_down]
    bursts = [row for row in snapshot.sorted_rows() if row.burst_until > view.now_ms]
    return [
        *((name, named.get(name), hold) for name, hold in holds),
        *((f"lock:{row.id}", row, Hold(f"lock:{row.id}", row.lock_until, "", "")) for row in locks),
        *((f"cap:{row.id}", row, Hold(f"cap:{row.id}", row.cap_until, "", "")) for row in caps),
        *((f"slow:{row.id}", row, Hold(f"slow:{row.id}", 0, "", "")) for row in slowed),
        *((f"burst:{row.id}", row, Hold(f"burst:{row.id}", row.burst_until, "", "")) for row in bursts),
    ]
