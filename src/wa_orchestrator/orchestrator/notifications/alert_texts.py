"""What people are told at once: which events are worth an alert, and how several become one text. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from wa_orchestrator.domain.sentences import Sentence
from wa_orchestrator.domain.session import Event, Reason, sentence

#: More names than this in one line are only counted.
MOST_NAMES = 8
MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing worth telling: its kind, whom it concerns, and why."""

    kind: str
    who: str
    reason: str
    at_ms: int

    def encode(self) -> str:
        """Write it as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


def decode(text: str) -> Alert:
    """Read what `encode` wrote."""
    return Alert(**json.loads(text))


_WORDS: Mapping[str, tuple[str, Sentence]] = {
    "session.connected": ("✅", Sentence("Connected", "מחובר")),
    "session.disconnected": ("⚠️", Sentence("Disconnected", "מנותק")),
    "session.failed": ("⛔", Sentence("Session failed", "החיבור נכשל")),
    "session.moved": ("🔄", Sentence("Moved to another proxy", "עבר לפרוקסי אחר")),
    "session.turned_away": (
        "🚫",
        Sentence("Unlinked: the phone has too many sessions", "נותק: למספר יותר מדי חיבורים"),
    ),
    "session.burst": ("🐇", Sentence("Too much at once: pauses are doubled", "יותר מדי בבת אחת: ההפסקות הוכפלו")),
    "proxy.bad": ("🔥", Sentence("Proxy burned", "פרוקסי נשרף")),
    "proxy.ok": ("🌱", Sentence("Proxy works again", "פרוקסי חזר לפעול")),
    "proxy.low_inventory": (
        "📉",
        Sentence("Proxy slots run low: add a proxy", "המקומות בפרוקסי אוזלים: הוסיפו פרוקסי"),
    ),
    "message.failed": ("✉️", Sentence("Messages could not be sent", "הודעות לא נשלחו")),
    "webhook.disabled": ("🔌", Sentence("A webhook was switched off: it does not answer", "Webhook כובה: אין מענה")),
    "backup.done": ("💾", Sentence("Backup done", "הגיבוי הושלם")),
    "backup.failed": ("💥", Sentence("Backup failed", "הגיבוי נכשל")),
    "alert.test": ("🔔", Sentence("A test: alerts arrive here", "ניסיון: ההתרעות מגיעות לכאן")),
    "summary.daily": ("📊", Sentence("Daily summary", "סיכום יומי")),
}


def worth_telling(fields: Mapping[str, str]) -> Alert | None:
    """Make an alert of an event of the stream; None for most events."""
    kind = fields.get("type", "")
    if kind not in _WORDS or fields.get("what") == Event.WORKER_STARTED:  # why it was down is told already
        return None
    who = fields.get("session") or fields.get("proxy") or fields.get("webhook") or fields.get("backup") or ""
    reason = fields.get("reason", "") or fields.get("note", "")
    return Alert(kind, who, reason, int(float(fields.get("at") or 0)))


def text_of(alerts: Sequence[Alert], language: str) -> str:
    """Put alerts into one text: a line for each kind and reason, with the names it concerns."""
    groups: dict[tuple[str, str], list[str]] = {}
    for alert in alerts:
        groups.setdefault((alert.kind, alert.reason), []).append(alert.who)
    lines = [_line(kind, reason, names, language) for (kind, reason), names in groups.items()]
    hidden = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], *([f"… +{hidden}"] if hidden > 0 else [])])


def _line(kind: str, reason: str, names: Sequence[str], language: str) -> str:
    sign, words = _WORDS[kind]
    unique = list(dict.fromkeys(name for name in names if name))
    shown = ", ".join(unique[:MOST_NAMES]) + (f" +{len(unique) - MOST_NAMES}" if len(unique) > MOST_NAMES else "")
    count = f" ×{len(names)}" if len(names) > max(1, len(unique)) else ""
    said = _reason(reason, language)
    return f"{sign} {words.in_language(language)}{count}{': ' + shown if shown else ''}{' — ' + said if said else ''}"


def _reason(reason: str, language: str) -> str:
    return sentence(Reason(reason), language) if reason in Reason.__members__ else ""
