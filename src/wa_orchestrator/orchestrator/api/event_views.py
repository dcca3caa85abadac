"""Events as the operator's own systems read them: whole, with both names of a contact, and the same in every door."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Entry
from wa_orchestrator.timestamps import iso

RECEIVED = "message.received"
_UNDER = re.compile(r"_([a-z])")
_NAMES = {"session": "sessionId", "message": "messageId", "webhook": "webhookId", "proxy": "proxyId"}
_OUTGOING = ("to", "reference", "whatsapp_id", "kind")
#: Told at the top of an event, or in `contact`.
_ELSEWHERE = frozenset({"type", "at", "contact_phone", "contact_lid"})
_INSTANTS = frozenset({"until"})


def wants(patterns: Iterable[str], kind: str) -> bool:
    """Whether one of the patterns (`*`, `message.*`, `session.connected`) names this type of event."""
    return any(
        pattern in ("*", kind) or (pattern.endswith(".*") and kind.startswith(pattern[:-1])) for pattern in patterns
    )


async def shown(scripts: Scripts, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Write events out: `{id, type, timestamp, data}`. Texts of incoming messages are fetched here and only here."""
    pipe = scripts.redis.pipeline(transaction=False)
    for entry in entries:
        fields = entry.fields
        if fields["type"] == RECEIVED:
            pipe.hgetall(keys.incoming(fields["session"], fields["whatsapp_id"]))
        else:
            pipe.hmget(keys.message(fields.get("message", "")), _OUTGOING)
    found: list[Any] = await pipe.execute()
    lids = await _lids(scripts, entries, found)
    return [_event(entry, more, lids) for entry, more in zip(entries, found, strict=True)]


async def _lids(scripts: Scripts, entries: Sequence[Entry], found: Sequence[Any]) -> dict[str, str]:
    phones = sorted({_contact_phone(entry, more) for entry, more in zip(entries, found, strict=True)} - {""})
    if not phones:
        return {}
    known: Any = await scripts.redis.mget([keys.lid_of(phone) for phone in phones])
    return {phone: lid for phone, lid in zip(phones, known, strict=True) if lid}


def _contact_phone(entry: Entry, more: Any) -> str:
    told = entry.fields.get("contact_phone", "")
    return told if told or entry.fields["type"] == RECEIVED else str(more[0] or "")


def _event(entry: Entry, more: Any, lids: Mapping[str, str]) -> dict[str, Any]:
    fields = entry.fields
    data: dict[str, Any] = {
        _name(name): _value(name, value) for name, value in fields.items() if name not in _ELSEWHERE
    }
    if fields["type"] == RECEIVED:
        data |= _incoming(more)
    else:
        data |= {_name(name): value for name, value in zip(_OUTGOING, more, strict=True) if value}
    phone = _contact_phone(entry, more)
    lid = fields.get("contact_lid") or lids.get(phone)
    if phone or lid:
        data["contact"] = {"phone": phone or None, "lid": lid or None}
    return {"id": entry.cursor, "type": fields["type"], "timestamp": iso(int(float(fields["at"]))), "data": data}


def _incoming(raw: Mapping[str, str]) -> dict[str, Any]:
    told: dict[str, Any] = {"from": raw.get("from"), "pushName": raw.get("push_name"), "text": raw.get("text")}
    if "at" in raw:
        told["sentAt"] = iso(int(float(raw["at"])))
    if "media" in raw:
        told["media"] = json.loads(raw["media"])
    return {name: value for name, value in told.items() if value is not None}


def _name(field: str) -> str:
    return _NAMES.get(field) or _UNDER.sub(lambda found: found[1].upper(), field)


def _value(name: str, value: str) -> str | None:
    return iso(int(float(value))) if name in _INSTANTS and value else value
