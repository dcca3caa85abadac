"""Makes `docs/events.md` from the catalogue of events, so that the page and the program cannot disagree."""

from wa_orchestrator.domain.stream_events import INTERNAL, SUBJECTS, EventType
from wa_orchestrator.orchestrator.api.event_models import data_model

_HEAD = """\
# Events

Made from `src/wa_orchestrator/domain/stream_events.py` by
`python -m wa_orchestrator.orchestrator.api.event_reference > docs/events.md`.

[Webhooks, pages and the stream](webhooks.md) deliver these events, each as `{"id", "type", "timestamp", "data"}`; the
last column lists the fields of `data`. Fields marked with `?` may be missing. Values are strings, `until` is an
ISO 8601 time or empty, and `contact` is `{"phone", "lid"}`. 🔔 marks the types that raise an alert.
"""
_TABLE = "| type | level | when | data |\n| --- | --- | --- | --- |\n"


def render() -> str:
    """Return the page."""
    parts = [_HEAD]
    for subject in SUBJECTS:
        rows = [_row(each) for each in EventType if each.subject == subject and each not in INTERNAL]
        if rows:
            parts += [f"\n## {subject}\n\n{_TABLE}", *rows]
    return "".join(parts)


def _row(kind: EventType) -> str:
    alert = " 🔔" if kind.alert_emoji else ""
    data = data_model(kind.payload)  # type: ignore[arg-type]  # a class is hashable
    fields = ", ".join(f"`{each.alias}{'' if each.is_required() else '?'}`" for each in data.model_fields.values())
    return f"| `{kind}`{alert} | {kind.level.name.lower()} | {kind.description} | {fields} |\n"


if __name__ == "__main__":
    print(render(), end="")
