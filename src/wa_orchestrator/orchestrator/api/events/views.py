"""Events as webhooks, `/api/v1/events` and server-sent events deliver them: one form for all."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.domain import conversation, stream_events
from wa_orchestrator.domain.access.permissions import Reach
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.domain.messages.message import message_id_of
from wa_orchestrator.domain.stream_events import INTERNAL, OF_ACCOUNT, OF_INCOMING, EventType
from wa_orchestrator.messages import event_history
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events.event_stream import Details
from wa_orchestrator.store.records import Entry
from wa_orchestrator.store.sessions.labels import SessionLabels
from wa_orchestrator.texts import catalogue
from wa_orchestrator.timestamps import iso

_NAMES = {
    "session": "sessionId", "message": "messageId", "webhook": "webhookId", "proxy": "proxyId", "call": "callId",
    "conversation": "conversationId",
}  # fmt: skip
#: Fields that are told in another one: `home` in the id of the conversation.
UNTOLD = frozenset({"home"})
#: Fields that are at the top of an event, or in `contact`.
_ELSEWHERE = frozenset({"type", "at", "contact_phone", "contact_lid"}) | UNTOLD
_INSTANTS = frozenset({"until"})
#: What callers that are limited to some sessions are not told of a session's events: shared proxies, names of people.
HIDDEN_FIELDS = frozenset({"proxy", "from", "to", "by"})
_SESSION_SUBJECTS = ("session.", "phone.", "hold.", "conversation.")
_HIDDEN_NAMES = frozenset({"proxyId", "from", "to", "by"})

Reaches = Callable[[Entry], bool]
"""Whether an event is within reach."""


async def reaches_of(labels: SessionLabels, reach: Reach) -> Reaches:
    """Return a function that says whether an event is reached: by its session. What all devices of an account report
    and one emits is reached by any session of that account.
    """
    own, account = await labels.filter_for(reach), await labels.account_filter_for(reach)
    return lambda entry: (account if entry.fields["type"] in OF_ACCOUNT else own)(entry.fields.get("session", ""))


def is_wanted(patterns: Iterable[str], entry: Entry) -> bool:
    """Whether one of the patterns (`*`, `message.*`, `session.connected`) selects this event for delivery."""
    kind = entry.fields["type"]
    return kind not in INTERNAL and stream_events.matches(patterns, kind)


def restricted(view: dict[str, Any]) -> dict[str, Any]:
    """Return an event as callers that are limited to some sessions get it."""
    if not view["type"].startswith(_SESSION_SUBJECTS):  # `from` and `to` of a message are its contact
        return view
    return {**view, "data": {name: "" if name in _HIDDEN_NAMES else value for name, value in view["data"].items()}}


async def views(scripts: Scripts, archive: Archive, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return events as `{id, type, timestamp, data}`. Only here do texts of incoming messages join them."""
    found = await event_history.details(scripts, archive, entries)
    return [_view(entry, details) for entry, details in zip(entries, found, strict=True)]


def _view(entry: Entry, details: Details) -> dict[str, Any]:
    fields = entry.fields
    data: dict[str, Any] = {
        public_name(name): _value(name, value)
        for name, value in fields.items()
        if name not in _ELSEWHERE and (value or name != "group")
    }
    if fields["type"] == EventType.PROXY_BAD:
        data["reason"] = catalogue.proxy_failure(catalogue.DEFAULT, fields.get("reason", ""))
    if fields["type"] in OF_INCOMING:
        data |= _incoming(fields["session"], fields["whatsapp_id"], details.message)
        chat = conversation.contact_name(details.contact_phone, details.contact_lid, fields.get("group", ""))
        data |= {"conversationId": conversation.id_of(fields.get("home") or fields["session"], chat)} if chat else {}
    else:
        data |= {public_name(name): value for name, value in details.message.items()}
    if details.contact_phone or details.contact_lid:
        data["contact"] = {"phone": details.contact_phone or None, "lid": details.contact_lid or None}
    return {"id": entry.cursor, "type": fields["type"], "timestamp": iso(int(float(fields["at"]))), "data": data}


def _incoming(session: str, whatsapp_id: str, raw: Mapping[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "messageId": incoming.id_of(session, whatsapp_id), "from": raw.get("from"), "pushName": raw.get("push_name"),
        "text": raw.get("text"),
    }  # fmt: skip
    if "at" in raw:
        data["sentAt"] = iso(int(float(raw["at"])))
    data |= {name: json.loads(raw[name]) for name in ("media", "location") if name in raw}
    data |= json.loads(raw.get("parts", "{}"))
    if raw.get("direction") == "out":
        data["fromMe"] = True
    for named in ("target", "replyTo"):
        if named in data:
            data[named] = {"messageId": _id_of(session, data[named]["whatsappId"]), **data[named]}
    return {name: value for name, value in data.items() if value is not None}


def _id_of(session: str, whatsapp_id: str) -> str:
    """Return our id of a message that another one names; whether we have that message is not known here."""
    return message_id_of(whatsapp_id) or incoming.id_of(session, whatsapp_id)


def public_name(field: str) -> str:
    """Return the JSON name of a field of the stream."""
    return _NAMES.get(field) or to_camel(field)


def _value(name: str, value: str) -> str | None:
    return iso(int(float(value))) if name in _INSTANTS and value else value
