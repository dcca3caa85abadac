"""The stream of events: `emit` is its only writer in Python, as `lua/shared/_event.lua` is in the scripts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.stream_events import EventType, Payload
from wa_orchestrator.errors import Broken
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Entry

#: How many events are kept at most, about; reached only while no leader archives. The scripts use the same numbers.
MAX_EVENTS: Final = 1_000_000
#: How many stay in Redis, about, when the archive has them too.
FRESH_EVENTS: Final = 100_000
MAX_SESSION_EVENTS: Final = 500
_OUTGOING: Final = ("to", "reference", "whatsapp_id", "kind")


async def emit(scripts: Scripts, kind: EventType, payload: Payload, *, history: str = "") -> None:
    """Append an event to the stream, and to the history of session `history` when there is one."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        emit_in(pipe, kind, payload, at_ms=await scripts.now_ms(), history=history)
        await pipe.execute()


def emit_in(pipe: Pipeline, kind: EventType, payload: Payload, *, at_ms: int, history: str = "") -> None:
    if not isinstance(payload, kind.payload):
        raise Broken(f"{kind} has the payload {kind.payload.__name__}, not {type(payload).__name__}")
    fields: dict[Any, Any] = {"type": str(kind), "at": at_ms, **stream_events.encode(payload)}
    if history:
        pipe.xadd(keys.session_events(history), fields, maxlen=MAX_SESSION_EVENTS)
    pipe.xadd(keys.EVENTS, fields, maxlen=MAX_EVENTS)


async def read(scripts: Scripts, stream: str = keys.EVENTS, *, after: str = "0", most: int = 100) -> list[Entry]:
    """Return the entries of a stream after a cursor, oldest first."""
    raw: Any = await scripts.redis.xrange(stream, min=f"({after}" if after != "0" else "-", max="+", count=most)
    return [Entry(cursor, fields) for cursor, fields in raw]


async def between(scripts: Scripts, from_ms: int, until_ms: int, *, most: int) -> list[Entry]:
    """Return the events between two instants, oldest first."""
    raw: Any = await scripts.redis.xrange(keys.EVENTS, min=from_ms, max=until_ms, count=most)
    return [Entry(cursor, fields) for cursor, fields in raw]


async def wait(scripts: Scripts, *, after: str, most: int, block_ms: int) -> list[Entry]:
    """Wait for events after a cursor and return them; none when none came within `block_ms`."""
    found: Any = await scripts.redis.xread({keys.EVENTS: after}, count=most, block=block_ms)
    return [Entry(cursor, fields) for cursor, fields in found[0][1]] if found else []


async def latest(scripts: Scripts, stream: str = keys.EVENTS, *, most: int) -> list[Entry]:
    """Return the newest entries of a stream, newest first."""
    raw: Any = await scripts.redis.xrevrange(stream, count=most)
    return [Entry(cursor, fields) for cursor, fields in raw]


async def consume(
    scripts: Scripts, cursor_key: str, add_writes: Callable[[Pipeline, list[Entry]], None], *, most: int, start: str
) -> list[Entry]:
    """Read the events after a stored cursor (`start` when there is none), and move it in one step with their writes.

    Several processes may consume with one cursor: each event is written once. Returns what this one consumed.
    """
    async with scripts.redis.pipeline(transaction=True) as pipe:
        await pipe.watch(cursor_key)
        stored = await pipe.get(cursor_key)
        cursor = str(stored or start)
        entries = await read(scripts, after=cursor, most=most)
        if stored and not entries:
            return []
        pipe.multi()  # type: ignore[no-untyped-call]
        add_writes(pipe, entries)
        pipe.set(cursor_key, entries[-1].cursor if entries else cursor)
        try:
            await pipe.execute()
        except WatchError:
            return []
    return entries


async def unread(scripts: Scripts, cursor_key: str, *, most: int) -> list[Entry]:
    """Return the events after a stored cursor; the first call begins with what comes after it."""
    cursor: Any = await scripts.redis.get(cursor_key)
    if cursor is None:
        await mark_read(scripts, cursor_key, await last_cursor(scripts))
        return []
    return await read(scripts, after=str(cursor), most=most)


async def mark_read(scripts: Scripts, cursor_key: str, cursor: str) -> None:
    """Remember that the events up to this one were worked through. They may be twice, never not at all."""
    await scripts.redis.set(cursor_key, cursor)


async def first_cursor(scripts: Scripts) -> str:
    """Return the cursor of the oldest event in Redis, '' when there is none."""
    found: Any = await scripts.redis.xrange(keys.EVENTS, count=1)
    return str(found[0][0]) if found else ""


async def trim(scripts: Scripts, archived: str, *, keep: int = FRESH_EVENTS) -> int:
    """Remove the oldest events before the cursor `archived`, so that about `keep` stay. Return how many."""
    excess = int(await scripts.redis.xlen(keys.EVENTS)) - keep
    return int(await scripts.redis.xtrim(keys.EVENTS, minid=archived, limit=excess)) if excess > 0 else 0


async def remove(scripts: Scripts, cursors: Sequence[str]) -> None:
    if cursors:
        await scripts.redis.xdel(keys.EVENTS, *cursors)


async def last_cursor(scripts: Scripts) -> str:
    """Return the cursor of the newest event, `0` when there is none."""
    found: Any = await scripts.redis.xrevrange(keys.EVENTS, count=1)
    return str(found[0][0]) if found else "0"


def cursor_order(cursor: str) -> tuple[int, int]:
    """Return a sort key: cursors in the order of the stream."""
    at_ms, _, number = (cursor or "0").partition("-")
    return int(at_ms), int(number or 0)


@dataclass(frozen=True, slots=True)
class Details:
    """What the stream omits about an event: fields of its message, and both names of its contact ('' = unknown)."""

    message: Mapping[str, str]
    contact_phone: str
    contact_lid: str


async def details(scripts: Scripts, entries: Sequence[Entry]) -> list[Details]:
    pipe = scripts.redis.pipeline(transaction=False)
    for entry in entries:
        fields = entry.fields
        if fields["type"] in stream_events.OF_INCOMING:
            pipe.hgetall(keys.incoming(fields["session"], fields["whatsapp_id"]))
        else:
            pipe.hmget(keys.message(fields.get("message", "")), _OUTGOING)
    replies: list[Any] = await pipe.execute()
    messages = [reply if isinstance(reply, dict) else _named(reply) for reply in replies]
    phones = [_contact_phone(entry, message) for entry, message in zip(entries, messages, strict=True)]
    wanted = sorted(set(phones) - {""})
    found: Any = await scripts.redis.mget([keys.lid_of(phone) for phone in wanted]) if wanted else []
    lids = dict(zip(wanted, found, strict=True))
    return [
        Details(message, phone, entry.fields.get("contact_lid") or lids.get(phone) or "")
        for entry, message, phone in zip(entries, messages, phones, strict=True)
    ]


def _named(values: Sequence[str | None]) -> dict[str, str]:
    return {name: value for name, value in zip(_OUTGOING, values, strict=True) if value}


def outgoing(fields: Mapping[str, str]) -> dict[str, str]:
    """Return those fields of a message that belong to its events."""
    return _named([fields.get(name) for name in _OUTGOING])


def contact_of(entry: Entry) -> str:
    """Return the person whom an event names: a phone, or `lid:…` while only that is known; '' for nobody."""
    phone, lid = entry.fields.get("contact_phone"), entry.fields.get("contact_lid")
    return phone or (f"lid:{lid}" if lid else "")


def _contact_phone(entry: Entry, message: Mapping[str, str]) -> str:
    known = entry.fields.get("contact_phone", "")
    return known if known or entry.fields["type"] in stream_events.OF_INCOMING else message.get("to", "")
