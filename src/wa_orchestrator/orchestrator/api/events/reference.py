"""Describes events for OpenAPI and for `docs/events.md`, from their catalogue: page and program cannot disagree."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Annotated, Any, Final, Literal, get_type_hints

from fastapi import APIRouter, Header
from pydantic import BaseModel, Field, create_model
from pydantic.alias_generators import to_pascal

from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.stream_events import INTERNAL, SUBJECTS, EventType, Payload
from wa_orchestrator.orchestrator.api.events import incoming_models
from wa_orchestrator.orchestrator.api.events.views import UNTOLD, public_name
from wa_orchestrator.web import openapi
from wa_orchestrator.web.models import ResponseModel, Timestamp

EventId = Annotated[str, Field(description="The cursor of the event.", examples=["1767225600000-0"])]
_Missing = Annotated[str | None, Field(default=None)]
_HEAD = """\
# Events

Made from `src/wa_orchestrator/domain/stream_events.py` by
`python -m wa_orchestrator.orchestrator.api.events.reference > docs/events.md`.

[Webhooks, pages and the stream](webhooks.md) deliver these events, each as `{"id", "type", "timestamp", "data"}`; the
last column lists the fields of `data`. Fields marked with `?` may be missing. Values are strings, `until` is an
ISO 8601 time or empty, and `contact` is `{"phone", "lid"}`. 🔔 marks the types that raise an alert.
"""
_TABLE = "| type | level | when | data |\n| --- | --- | --- | --- |\n"
_CONTACT: Final = frozenset({"contact_phone", "contact_lid"})


class EventContact(ResponseModel):
    """The other side of a message."""

    phone: str | None
    lid: str | None = Field(description="WhatsApp's id of the contact.")


#: What `event_views` adds to the payload from the message itself.
_ADDED: Final[dict[type[Payload], dict[str, Any]]] = {
    stream_events.MessageChanged: {
        "to": _Missing, "reference": _Missing, "whatsappId": _Missing, "kind": _Missing,
        "contact": Annotated[EventContact | None, Field(default=None)],
    },
    stream_events.MessageReceived: incoming_models.FIELDS,
}  # fmt: skip


@cache
def data_model(payload: type[Payload]) -> type[BaseModel]:
    """Return the model of `data` for a payload of the catalogue. All values are strings, as in the stream."""
    hints = get_type_hints(payload)
    named: dict[str, Any] = {}
    for name, optional in stream_events.fields_of(payload).items():
        if name in UNTOLD:
            continue
        if name in _CONTACT:
            named["contact"] = Annotated[EventContact | None, Field(default=None)]
            continue
        hint = hints.get(name) or hints[f"{name}_"]
        kind = str | None if optional or stream_events.Instant in getattr(hint, "__args__", (hint,)) else str
        named[public_name(name)] = Annotated[kind, Field(default=None)] if optional else kind
    named |= _ADDED.get(payload, {})
    # Named by position: `from` is no name for a Python attribute.
    fields: Any = {f"field_{n}": Annotated[kind, Field(alias=name)] for n, (name, kind) in enumerate(named.items())}
    return create_model(f"{payload.__name__}Data", __doc__=payload.__doc__, **fields)


def event_model(kind: EventType) -> type[BaseModel]:
    fields: Any = {
        "id": EventId,
        "type": Literal[str(kind)],
        "timestamp": Timestamp,
        "data": data_model(kind.payload),  # type: ignore[arg-type]  # a class is hashable
    }
    return create_model(f"{to_pascal(kind.name.lower())}Event", __doc__=kind.description, **fields)


def webhooks() -> APIRouter:
    """Return the requests that the server sends to webhooks, for OpenAPI."""
    routes = APIRouter(tags=["webhooks"], generate_unique_id_function=openapi.operation_id)
    retried: dict[int | str, dict[str, Any]] = {"4XX": {"description": "Not accepted; the delivery is tried again."}}
    for kind in EventType:
        if kind not in INTERNAL:
            routes.add_api_route(
                kind.value,
                _receiver(event_model(kind)),
                methods=["POST"],
                name=f"on_{kind.name.lower()}",
                summary=kind.description.removesuffix("."),
                response_description="Accepted; any status 2xx does.",
                responses=retried,
            )
    return routes


def _receiver(model: type[BaseModel]) -> Callable[..., Awaitable[None]]:
    async def receive(
        event: Any,
        webhook_id: Annotated[str, Header(description="The same for every attempt: use it to drop repetitions.")],
        webhook_timestamp: Annotated[str, Header(description="Seconds since 1970.")],
        webhook_signature: Annotated[str, Header(description="`v1,` and the HMAC; see standardwebhooks.com.")],
    ) -> None:
        raise AssertionError((event, webhook_id, webhook_timestamp, webhook_signature))

    receive.__annotations__["event"] = model
    return receive


def render() -> str:
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
