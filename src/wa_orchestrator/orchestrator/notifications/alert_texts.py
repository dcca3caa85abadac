"""Turns events into alerts, and alerts into one text. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.phone import last_four
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.domain.stream_events import ALERTS, EventType, ProxyReason
from wa_orchestrator.texts.catalogue import message_failure, proxy_failure, text

#: Further names in a line, and further lines in a text, are only counted.
MAX_NAMES = 8
MAX_LINES = 20
#: Subjects whose single members have a page.
_PAGES = {"session": "/sessions", "campaign": "/campaigns"}


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: the type of its event, whom it concerns, and why (a code, or counts as JSON)."""

    kind: str
    who: str
    reason: str
    at_ms: int
    name: str = ""
    """How people know the one it concerns; looked up when the alert is delivered."""

    def encode(self) -> str:
        stored = {name: value for name, value in asdict(self).items() if name != "name"}
        return json.dumps(stored, separators=(",", ":"))


def alert_of(fields: Mapping[str, str]) -> Alert | None:
    """Return the alert for an event of the stream; None for most events."""
    kind = fields.get("type", "")
    if kind not in ALERTS or fields.get("what") == Event.WORKER_STARTED:  # the alert when it went down gave the reason
        return None
    if kind == EventType.PROXY_BAD and fields.get("reason") == ProxyReason.DRAINED:  # an operator's own doing
        return None
    who = next((fields[name] for name in ("session", "proxy", "webhook", "campaign", "node") if fields.get(name)), "")
    reason = fields.get("reason", "") or fields.get("note", "") or fields.get("details", "")
    return Alert(kind, who, reason, int(float(fields.get("at") or 0)))


def name_of(label: str, session_id: str, phone: str) -> str:
    """Return how people know a session: its label, or its id where it has none, and the last digits of its phone."""
    return f"{label or session_id} (…{last_four(phone)})" if phone else label or session_id


def text_of(alerts: Sequence[Alert], language: str, base_url: str = "") -> str:
    """Return one text for several alerts: a line for each kind and reason, with the names it concerns and a link."""
    groups: dict[tuple[str, str], list[Alert]] = {}
    for alert in alerts:
        groups.setdefault((alert.kind, alert.reason), []).append(alert)
    lines = [
        _line(kind, reason, [each.name or each.who for each in group], language) + _link(group, base_url)
        for (kind, reason), group in groups.items()
    ]
    hidden = len(lines) - MAX_LINES
    return "\n".join([*lines[:MAX_LINES], *([f"… +{hidden}"] if hidden > 0 else [])])


def _line(kind: str, reason: str, names: Sequence[str], language: str) -> str:
    unique = list(dict.fromkeys(name for name in names if name))
    shown = ", ".join(unique[:MAX_NAMES]) + (f" +{len(unique) - MAX_NAMES}" if len(unique) > MAX_NAMES else "")
    count = f" ×{len(names)}" if len(names) > max(1, len(unique)) else ""
    because = _because(kind, reason, language)
    return f"{_title(kind, language)}{count}{': ' + shown if shown else ''}{' — ' + because if because else ''}"


def _because(kind: str, reason: str, language: str) -> str:
    if reason.startswith("{"):
        return text(language, f"alert_details.{kind}").format(**json.loads(reason))
    if kind == EventType.PROXY_OK:
        return text(language, f"cause.{reason}")
    if kind.startswith("proxy."):
        return proxy_failure(language, reason)
    subject, _, status = kind.partition(".")
    if subject == "message" and reason:
        return message_failure(language, reason, status)
    tables = ("session_reason", "cause")
    return next((found for table in tables if (found := text(language, f"{table}.{reason}"))), "") if reason else ""


def _link(group: Sequence[Alert], base_url: str) -> str:
    """Return a line with the page where a person can act; none without a base URL."""
    if not base_url:
        return ""
    subject, _, status = group[0].kind.partition(".")
    pages = {"message": f"/messages?status={status}", "proxy": "/proxies", "webhook": "/settings", "node": "/nodes"}
    page = pages.get(subject, "/campaigns" if subject == "campaign" else "/")
    if subject in _PAGES and len({each.who for each in group}) == 1:
        page = f"{_PAGES[subject]}/{group[0].who}"
    return f"\n{base_url}{page}"


def _title(kind: str, language: str) -> str:
    known = stream_events.find(kind)
    if known is None:  # queued by another version of the product
        return kind
    return f"{known.alert_emoji} {text(language, f'alert.{kind}')}"
