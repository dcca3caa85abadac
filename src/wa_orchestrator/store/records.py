"""Reading what is stored, as typed records; nothing here changes anything."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


@dataclass(frozen=True, slots=True)
class Session:
    """One session as it is recorded. `fields` holds everything else that was stored with it."""

    id: str
    status: str
    reason: str
    phone: str
    proxy: str
    label: str
    wanted: str
    epoch: int
    version: int
    created_at: int
    changed_at: int
    connected_at: int
    first_connected_at: int
    last_ping_at: int
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy as it is recorded, with who sits on it. The URL holds a password and stays inside the server."""

    id: str
    url: str
    masked: str
    status: str
    version: int
    sessions: frozenset[str]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it is recorded."""

    id: str
    whatsapp_id: str
    phone: str
    session: str
    to: str
    status: str
    reason: str
    priority: int
    attempts: int
    accepted_at: int
    due_at: int
    expires_at: int
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PhonePace:
    """What the pace of a phone depends on, as WhatsApp has seen it."""

    in_flight: str
    silent_until: int
    lock_until: int
    burst_until: int
    service_ms: int
    sent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a stream: its cursor and its fields."""

    cursor: str
    fields: Mapping[str, str]


def _int(raw: Mapping[str, str], name: str) -> int:
    return int(float(raw.get(name) or 0))


def session_from(raw: Mapping[str, str]) -> Session:
    """A session from its hash."""
    return Session(
        id=raw["id"],
        status=raw["status"],
        reason=raw.get("reason", ""),
        phone=raw.get("phone", ""),
        proxy=raw.get("proxy", ""),
        label=raw.get("label", ""),
        wanted=raw.get("wanted", ""),
        epoch=_int(raw, "epoch"),
        version=_int(raw, "version"),
        created_at=_int(raw, "created_at"),
        changed_at=_int(raw, "changed_at"),
        connected_at=_int(raw, "connected_at"),
        first_connected_at=_int(raw, "first_connected_at"),
        last_ping_at=_int(raw, "last_ping_at"),
        fields=dict(raw),
    )


def message_from(raw: Mapping[str, str]) -> Message:
    """A message from its hash."""
    return Message(
        id=raw["id"],
        whatsapp_id=raw.get("whatsapp_id", ""),
        phone=raw["phone"],
        session=raw["session"],
        to=raw["to"],
        status=raw["status"],
        reason=raw.get("reason", ""),
        priority=_int(raw, "priority"),
        attempts=_int(raw, "attempts"),
        accepted_at=_int(raw, "accepted_at"),
        due_at=_int(raw, "due_at"),
        expires_at=_int(raw, "expires_at"),
        fields=dict(raw),
    )


async def session(scripts: Scripts, session_id: str) -> Session | None:
    """One session, or None."""
    raw: Any = await scripts.redis.hgetall(keys.session(session_id))
    return session_from(raw) if raw else None


async def sessions(scripts: Scripts, ids: Iterable[str] | None = None) -> list[Session]:
    """These sessions, or all, by id."""
    members: Any = ids if ids is not None else await scripts.redis.smembers(keys.SESSIONS_ALL)
    raws = await _hashes(scripts, [keys.session(name) for name in sorted(members)])
    return [session_from(raw) for raw in raws if raw]


async def proxy(scripts: Scripts, proxy_id: str) -> Proxy | None:
    """One proxy, or None."""
    found = await proxies(scripts, [proxy_id])
    return found[0] if found else None


async def proxies(scripts: Scripts, ids: Iterable[str] | None = None) -> list[Proxy]:
    """These proxies, or all, by id, each with its sessions."""
    members: Any = ids if ids is not None else await scripts.redis.smembers(keys.PROXIES_ALL)
    names = sorted(members)
    pipe = scripts.redis.pipeline(transaction=False)
    for name in names:
        pipe.hgetall(keys.proxy(name))
        pipe.smembers(keys.sessions_of_proxy(name))
    replies: list[Any] = await pipe.execute()
    return [
        Proxy(raw["id"], raw["url"], raw["masked"], raw["status"], _int(raw, "version"), frozenset(members), raw)
        for raw, members in zip(replies[::2], replies[1::2], strict=True)
        if raw
    ]


async def message(scripts: Scripts, message_id: str) -> Message | None:
    """One message, or None."""
    raw: Any = await scripts.redis.hgetall(keys.message(message_id))
    return message_from(raw) if raw else None


async def messages(scripts: Scripts, ids: Sequence[str]) -> list[Message]:
    """These messages in this order; those that are gone are left out."""
    raws = await _hashes(scripts, [keys.message(name) for name in ids])
    return [message_from(raw) for raw in raws if raw]


async def timeline(scripts: Scripts, message_id: str) -> list[tuple[int, str, str]]:
    """Return a message's timeline: (instant ms, status, note), oldest first. It begins with the acceptance."""
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.hget(keys.message(message_id), "accepted_at")
    pipe.lrange(keys.timeline(message_id), 0, -1)
    accepted_at, lines = await pipe.execute()
    if accepted_at is None:
        return []
    parts = [(*line.split(" ", 2), "", "")[:3] for line in lines]
    return [(int(accepted_at), "queued", ""), *((int(at), status, note) for at, status, note in parts)]


async def phone_pace(scripts: Scripts, phone: str, *, since_ms: int) -> PhonePace:
    """What a decision about this phone's next message needs; `sent` from `since_ms` on, oldest first."""
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.hgetall(keys.pace(phone))
    pipe.zrangebyscore(keys.sent(phone), since_ms, "+inf", withscores=True)
    raw, sent = await pipe.execute()
    return PhonePace(
        raw.get("in_flight", ""),
        _int(raw, "silent_until"),
        _int(raw, "lock_until"),
        _int(raw, "burst_until"),
        _int(raw, "service_ms"),
        tuple(int(score) for _, score in sent),
    )


async def holds(scripts: Scripts) -> dict[str, dict[str, Any]]:
    """All holds by their field."""
    raw: Any = await scripts.redis.hgetall(keys.HOLDS)
    return {name: json.loads(value) for name, value in raw.items()}


async def _hashes(scripts: Scripts, names: Sequence[str]) -> list[dict[str, str]]:
    pipe = scripts.redis.pipeline(transaction=False)
    for name in names:
        pipe.hgetall(name)
    replies: list[Any] = await pipe.execute()
    return replies
