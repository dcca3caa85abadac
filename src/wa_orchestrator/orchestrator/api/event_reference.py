"""Makes `docs/events.md` from the catalogue of events, so that the page and the program cannot disagree."""

from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.stream_events import INTERNAL, SUBJECTS, EventType
from wa_orchestrator.orchestrator.api.event_views import public_name

_HEAD = """\
# Events

Made from `src/wa_orchestrator/domain/stream_events.py` by
`python -m wa_orchestrator.orchestrator.api.event_reference > docs/events.md`.

[Webhooks, pages and the stream](webhooks.md) deliver these events, each as `{"id", "type", "timestamp", "data"}`; the
last column lists the fields of `data`. Fields marked with `?` may be missing. Values are strings, `until` is an
ISO 8601 time or empty, and `contact` is `{"phone", "lid"}`. Events of a message also have its `to`, `kind`,
`whatsappId`, `reference` and `contact` where they are known. 🔔 marks the types that raise an alert.
"""
_TABLE = "| type | level | when | data |\n| --- | --- | --- | --- |\n"
_CONTACT = frozenset({"contact_phone", "contact_lid"})
_ADDED = {EventType.MESSAGE_RECEIVED: ("from", "pushName?", "text?", "sentAt", "media?")}


def render() -> str:
    """Return the page."""
    parts = [_HEAD]
    for subject in SUBJECTS:
        rows = [_row(each) for each in EventType if each.subject == subject and each not in INTERNAL]
        if rows:
            parts.append(
                f"\n## {subject}\n\n| type | level | when | data |\n| --- | --- | --- | --- |\n" + "".join(rows)
            )
    return "".join(parts)


def _row(kind: EventType) -> str:
    alert = " 🔔" if kind.alert_emoji else ""
    fields = ", ".join(f"`{name}`" for name in _data(kind))
    return f"| `{kind}`{alert} | {kind.level.name.lower()} | {kind.description} | {fields} |\n"


def _data(kind: EventType) -> list[str]:
    names = stream_events.fields_of(kind.payload)
    contact = ["contact"] if _CONTACT.intersection(names) else []
    own = [public_name(name) + ("?" if optional else "") for name, optional in names.items() if name not in _CONTACT]
    return [*own, *contact, *_ADDED.get(kind, ())]


if __name__ == "__main__":
    print(render(), end="")
