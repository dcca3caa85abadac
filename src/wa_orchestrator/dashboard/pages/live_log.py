"""Live log: one line per event, the newest first. No message texts; of phones only the last four digits."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import natural
from wa_orchestrator.dashboard.html import labels
from wa_orchestrator.dashboard.html.locale import bdi, ltr
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain import stream_events, whole_number
from wa_orchestrator.domain.phone import last_four
from wa_orchestrator.domain.stream_events import SUBJECTS, EventType, Level, ProxyReason
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Entry

FIRST_LINES: Final = 100
_SEARCHED: Final = 2000
LEVELS: Final = (Level.ERROR, Level.WARNING, Level.INFO)
_FILTERS: Final = ("session", "kind", "q", "levels")
_PHONES: Final = frozenset({"phone", "to", "from_phone", "recipient", "contact_phone"})
#: Types whose note says why.
_NOTED: Final = frozenset({EventType.MESSAGE_QUEUED, EventType.MESSAGE_FAILED, EventType.MESSAGE_UNKNOWN})
#: Types whose `to` is a proxy or a node, and no phone.
_BETWEEN_PLACES: Final = frozenset({EventType.SESSION_MOVED, EventType.SESSION_RELOCATED, EventType.PHONE_BOUND})
_SECRET: Final = frozenset({"qr", "code", "text", "body"})


@dataclass(frozen=True, slots=True)
class Line:
    cursor: str
    at_ms: int
    kind: str
    level: str
    session: str
    name: str
    tag: str
    """Distinguishes sessions of the same name."""
    text: Markup
    details: str


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    """Show the latest events that match the filter, the newest first."""
    filters = any(query.get(name) for name in _FILTERS)
    entries = await event_stream.latest(
        renderer.context.scripts, most=_SEARCHED if filters or view.is_limited else FIRST_LINES
    )
    lines = [line_of(view, entry) for entry in entries if view.sees(entry.fields.get("session", ""))]
    values = {
        "lines": [line for line in lines if passes(line, query)][:FIRST_LINES],
        "query": query,
        "rows": sorted(view.snapshot.rows.values(), key=lambda row: natural(row.name)),
        "subjects": SUBJECTS,
        "levels": levels_in(query),
    }
    watch = {"page": "live-log"} | {name: query[name] for name in _FILTERS if query.get(name)}
    return PageContent("log.html", values=values, watch=watch)


async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Return no parts: lines are streamed separately."""
    return {}


def levels_in(query: Mapping[str, str]) -> frozenset[str]:
    """Return the levels that a filter selects; all if it names none."""
    levels = query.get("levels", "")
    return frozenset(levels.split(",")) & set(LEVELS) if levels else frozenset(LEVELS)


def passes(line: Line, query: Mapping[str, str]) -> bool:
    text = query.get("q", "").strip().lower()
    return (
        line.level in levels_in(query)
        and (not query.get("session") or line.session == query["session"])
        and (not query.get("kind") or line.kind.startswith(query["kind"]))
        and (not text or text in f"{line.kind} {line.name} {line.tag} {line.text.striptags()} {line.details}".lower())
    )


def line_of(view: View, entry: Entry) -> Line:
    fields = entry.fields
    kind = fields.get("type", "?")
    session = fields.get("session", "")
    row = view.snapshot.rows.get(session)
    tag = ""
    if row and row.name in view.snapshot.namesakes:
        tag = f"••••{last_four(row.session.phone)}" if row.session.phone else row.id
    return Line(
        entry.cursor,
        int(float(fields.get("at") or entry.cursor.partition("-")[0])),
        kind,
        Level.INFO if _is_drain(kind, fields) else stream_events.level_of(kind),
        session,
        row.name if row else session or view.snapshot.proxy_called(fields.get("proxy", "")),
        tag,
        explained_text(view, kind, fields),
        json.dumps(_redacted(fields), ensure_ascii=False, indent=1),
    )


def explained_text(view: View, kind: str, fields: Mapping[str, str]) -> Markup:
    """Return what happened and, if it is known, why."""
    text = event_text(view, kind, fields)
    why = fields.get("reason") or (fields.get("note", "") if kind in _NOTED else "")
    subject, _, status = kind.partition(".")
    explained = labels.message_note(view, why, status) if subject == "message" else labels.cause(view, why)
    is_unexplained = not explained or (subject == "message" and explained == why)  # no text for this code
    if not why or is_unexplained or _is_drain(kind, fields):
        return text
    return Markup("{}: {}").format(text, explained)


def event_text(view: View, kind: str, fields: Mapping[str, str]) -> Markup:
    from_nowhere = kind == EventType.SESSION_MOVED and not fields.get("from")
    returned = kind == EventType.MESSAGE_QUEUED and fields.get("note")
    name = "event.session.moved_in" if from_nowhere else "event.message.returned" if returned else f"event.{kind}"
    name = "event.proxy.drained" if _is_drain(kind, fields) else name
    if not view.knows(name):
        return Markup("{}").format(kind)
    known = stream_events.find(kind)
    stored = stream_events.fields_of(known.payload) if known else {}
    values = {field: fields.get(field, "") for field in stored} | {
        "message": ltr(fields.get("message", "")),
        "proxy": _place(view, fields.get("proxy", "")),
        "from_": _place(view, fields.get("from", "")),
        "to": _place(view, fields.get("to", "")) if kind in _BETWEEN_PLACES else "",
        "last": ltr("••••" + last_four(fields.get("contact_phone") or fields.get("to") or fields.get("phone") or "")),
        "count": fields.get("count", ""),
        "away": view.seconds(int(fields.get("away_ms") or 0)),
        "since": _clock(view, fields.get("since", "")),
        "until": _clock(view, fields.get("until", "")),
        "kind": view.kind(fields.get("kind", "")),
        "word": bdi(fields["word"]) if fields.get("word") else "—",
        "note": fields.get("note", ""),
        "webhook": ltr(view.snapshot.webhook_hosts.get(fields.get("webhook", ""), fields.get("webhook", ""))),
        "campaign": bdi(view.snapshot.campaign_names.get(fields.get("campaign", ""), fields.get("campaign", ""))),
        "state": _campaign_state(view, fields),
        "stage": _passkey_stage(view, fields),
        "outcome": _restore_outcome(view, fields),
        "change": Markup(", ").join(_conversation_change(view, each) for each in fields.get("change", "").split(",")),
        "by": labels.actor(view, fields.get("by", "")),
        "what": _held(view, fields) if kind.startswith("hold.") else "",
    }
    return view.t(name, **values)


def _is_drain(kind: str, fields: Mapping[str, str]) -> bool:
    """Whether an operator moves the sessions of a proxy away, which did not fail."""
    return kind == EventType.PROXY_BAD and fields.get("reason") == ProxyReason.DRAINED


def _place(view: View, name: str) -> Markup:
    """Return how people know a proxy; a node is known by its name."""
    return bdi(view.snapshot.proxy_called(name))


def _clock(view: View, at_ms: str) -> Markup | str:
    known = whole_number.parse(at_ms)
    return "" if known is None else view.clock(known)


def _conversation_change(view: View, name: str) -> Markup:
    return view.t(f"inbox.change.{name}") if view.knows(f"inbox.change.{name}") else ltr(name)


def _campaign_state(view: View, fields: Mapping[str, str]) -> Markup:
    name = f"campaigns.state_{fields.get('state', '')}"
    return view.t(name) if view.knows(name) else Markup("{}").format(fields.get("state", ""))


def _restore_outcome(view: View, fields: Mapping[str, str]) -> Markup:
    name = f"restore_outcome.{fields.get('outcome', '')}"
    return view.t(name) if view.knows(name) else Markup("{}").format(fields.get("outcome", ""))


def _passkey_stage(view: View, fields: Mapping[str, str]) -> Markup:
    name = f"passkey.stage_{fields.get('stage', '')}"
    return view.t(name) if view.knows(name) else Markup("{}").format(fields.get("stage", ""))


def _held(view: View, fields: Mapping[str, str]) -> Markup:
    scope = fields.get("scope", "")
    name = fields.get(scope, "")
    if scope == "phone":
        return ltr(f"••••{last_four(name)}")
    row = view.snapshot.rows.get(name) if scope == "session" else None
    return bdi(row.name if row else name) if name else view.t("hold.everything")


def _redacted(fields: Mapping[str, str]) -> dict[str, str]:
    return {
        name: f"••••{last_four(value)}" if name in _PHONES and value.isdigit() else "•••" if name in _SECRET else value
        for name, value in fields.items()
    }
