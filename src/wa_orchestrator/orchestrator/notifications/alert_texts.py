"""Turns events into alerts, and alerts into one text. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.session import Event
from wa_orchestrator.domain.stream_events import ALERTS
from wa_orchestrator.texts.catalogue import text

#: Further names in a line, and further lines in a text, are only counted.
MAX_NAMES = 8
MAX_LINES = 20


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: the type of its event, whom it concerns, and why."""

    kind: str
    who: str
    reason: str
    at_ms: int

    def encode(self) -> str:
        """Return the alert as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


def decode(text: str) -> Alert:
    """Return the alert that `encode` wrote."""
    return Alert(**json.loads(text))


def alert_of(fields: Mapping[str, str]) -> Alert | None:
    """Return the alert for an event of the stream; None for most events."""
    kind = fields.get("type", "")
    if kind not in ALERTS or fields.get("what") == Event.WORKER_STARTED:  # the alert when it went down gave the reason
        return None
    who = fields.get("session") or fields.get("proxy") or fields.get("webhook") or ""
    reason = fields.get("reason", "") or fields.get("note", "")
    return Alert(kind, who, reason, int(float(fields.get("at") or 0)))


def text_of(alerts: Sequence[Alert], language: str) -> str:
    """Return one text for several alerts: a line for each kind and reason, with the names it concerns."""
    groups: dict[tuple[str, str], list[str]] = {}
    for alert in alerts:
        groups.setdefault((alert.kind, alert.reason), []).append(alert.who)
    lines = [_line(kind, reason, names, language) for (kind, reason), names in groups.items()]
    hidden = len(lines) - MAX_LINES
    return "\n".join([*lines[:MAX_LINES], *([f"… +{hidden}"] if hidden > 0 else [])])


def _line(kind: str, reason: str, names: Sequence[str], language: str) -> str:
    unique = list(dict.fromkeys(name for name in names if name))
    shown = ", ".join(unique[:MAX_NAMES]) + (f" +{len(unique) - MAX_NAMES}" if len(unique) > MAX_NAMES else "")
    count = f" ×{len(names)}" if len(names) > max(1, len(unique)) else ""
    because = text(language, f"session_reason.{reason}")
    return f"{_title(kind, language)}{count}{': ' + shown if shown else ''}{' — ' + because if because else ''}"


def _title(kind: str, language: str) -> str:
    known = stream_events.find(kind)
    if known is None:  # queued by another version of the product
        return kind
    return f"{known.alert_emoji} {text(language, f'alert.{kind}')}"
