"""Session page: state, daily budget, queue, number health, history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet import history
from wa_orchestrator.dashboard.fleet.attention import is_offline_for_long, unproven_opt_outs
from wa_orchestrator.dashboard.fleet.snapshot import Row
from wa_orchestrator.dashboard.html import labels
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.dashboard.pages import live_log
from wa_orchestrator.dashboard.pages.fleet import draw, share_of
from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.pacing.limits import DAY_MS, HOT_FROM_MS, WARM_FROM_MS, Pace, Trust
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.domain.workers.nodes import NodeState
from wa_orchestrator.messages import phone_health, queue_forecast
from wa_orchestrator.messages.queue_forecast import QueuedMessage, facts_of, forecast_of
from wa_orchestrator.messages.session_pace import zone_of
from wa_orchestrator.orchestrator.workers import worker_spec
from wa_orchestrator.store import keys
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Entry, Proxy
from wa_orchestrator.store.sessions import nodes

QUEUE_SHOWN: Final = 20
_HISTORY_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event of a session, as text."""

    at_ms: int
    state: str
    what: Markup
    why: str


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent | None:
    """Show one session; None if it does not exist."""
    row = view.snapshot.rows.get(query.get("id", ""))
    if row is None:
        return None
    watch = {"page": "session", "id": row.id}
    return PageContent(
        "session.html", await _parts(renderer, view, row), {"row": row, "exits": exits(view, row)}, watch
    )


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    row = view.snapshot.rows.get(query.get("id", ""))
    return await _parts(renderer, view, row) if row else {"session-head": renderer.macros.session_gone(view)}


async def _parts(renderer: Renderer, view: View, row: Row) -> dict[str, Markup]:
    scripts, settings, m = renderer.context.scripts, renderer.context.settings, renderer.macros
    day = (await history.days(scripts, [row.session], view.now_ms))[row.id]
    proxy = next((each for each in view.snapshot.proxies if each.id == row.session.proxy), None)
    recent = await event_stream.latest(scripts, keys.session_events(row.id), most=_HISTORY_SHOWN)
    local = datetime.fromtimestamp(view.now_ms / 1000, tz=zone_of(settings, row.session))
    progress, hour = trust_progress(row, view.now_ms), local.hour + local.minute / 60
    return {
        "session-head": m.session_head(view, row),
        "session-why": m.session_why(
            view, row, is_offline_for_long(row, view.now_ms), unproven_opt_outs(view.snapshot, row, view)
        ),
        "session-today": m.session_today(view, row, progress, hours_of_day(row.pace), hour, str(local.tzinfo)),
        "session-queue": m.session_queue(view, row, await queue(renderer, row)),
        "session-health": m.session_health(
            view, row, await phone_health.of_session(scripts, settings, row.session, view.now_ms)
        ),
        "session-strip": m.session_strip(view, draw(view, day, tall=True), share_of(view, day)),
        "session-proxy": m.session_proxy(view, row, proxy),
        "session-worker": m.session_worker(
            view, row, settings.runner, worker_spec.default_presence(settings), await _other_nodes(renderer, row)
        ),
        "session-history": m.session_history(view, row, [_history_entry(view, entry) for entry in recent]),
    }


async def _other_nodes(renderer: Renderer, row: Row) -> list[str]:
    """Return the nodes that a session could be moved to."""
    scripts = renderer.context.scripts
    known, drained = await nodes.known(scripts), await nodes.drained(scripts)
    ready = {each.name for each in known if each.state is NodeState.READY}
    return sorted(ready - drained - {row.session.node})


def exits(view: View, row: Row) -> list[Proxy]:
    """Return the proxies that a session could be moved to: they work and have room."""
    healthy = [each for each in view.snapshot.proxies if each.status == "OK" and each.id != row.session.proxy]
    return [each for each in healthy if len(each.sessions) < len(view.snapshot.slots_of(each))]


def hours_of_day(pace: Pace) -> list[tuple[float, float]]:
    """Return when a session sends, as parts of one day from 0 to 24; hours past midnight are two parts."""
    opens, closes = (each.hour + each.minute / 60 for each in (pace.opens, pace.closes))
    if opens == closes:
        return [(0, 24)]
    parts = [(opens, closes)] if opens < closes else [(0, closes), (opens, 24)]
    return [(begins, ends) for begins, ends in parts if begins < ends]


def trust_progress(row: Row, now_ms: int) -> dict[str, Any]:
    age = now_ms - row.session.first_connected_at if row.session.first_connected_at else 0
    steps = []
    for trust, (begins, ends) in zip(Trust, pairwise((0, WARM_FROM_MS, HOT_FROM_MS, 20 * DAY_MS)), strict=True):
        share = max(0, min(100, round((age - begins) / (ends - begins) * 100)))
        steps.append({"trust": trust, "share": share, "now": trust is row.trust})
    until = {Trust.COLD: WARM_FROM_MS, Trust.WARM: HOT_FROM_MS}.get(row.trust)
    days_left = None if until is None else max(1, -(-(until - age) // DAY_MS))
    return {"steps": steps, "day": age // DAY_MS + 1, "days_left": days_left}


async def queue(renderer: Renderer, row: Row) -> Sequence[QueuedMessage]:
    if not row.session.phone:
        return []
    scripts, session = renderer.context.scripts, row.session
    facts = await facts_of(scripts, session)
    forecast, limit = forecast_of(renderer.context.settings, session, facts), facts.phone.new_contacts
    return await queue_forecast.queue(scripts, session.phone, forecast, new_contacts=limit, most=QUEUE_SHOWN)


def _history_entry(view: View, entry: Entry) -> HistoryEntry:
    kind, fields = entry.fields.get("type", ""), entry.fields
    at_ms, why = int(float(fields.get("at", "0"))), labels.cause(view, fields.get("reason", ""))
    state = kind.removeprefix("session.")
    if state in tuple(State):
        return HistoryEntry(at_ms, state, view.t(f"state.{state}"), why)
    return HistoryEntry(at_ms, stream_events.level_of(kind), live_log.event_text(view, kind, fields), why)
