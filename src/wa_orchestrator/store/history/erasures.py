"""Erasure of one person: the requests, and what Redis knows of them. An opt-out survives, without its words."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.history import retention
from wa_orchestrator.store.messages import contacts, incoming_messages, open_messages, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.timestamps import FOREVER_MS

_PAGE: Final = 1_000
REASON: Final = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Request:
    """A person to be erased, the instant of the first pass, 0 before it, and the LID that was known then."""

    phone: str
    passed_at: int
    lid: str


async def ask(scripts: Scripts, phone: str) -> None:
    """Ask for the erasure of a person; the leader carries it out. One that is under way begins again."""
    await scripts.redis.hset(keys.ERASURES, phone, "0")


async def requests(scripts: Scripts) -> list[Request]:
    stored: Any = await scripts.redis.hgetall(keys.ERASURES)
    parts = {phone: text.partition(" ") for phone, text in sorted(stored.items())}
    return [Request(phone, int(passed_at), lid) for phone, (passed_at, _, lid) in parts.items()]


async def is_passed(scripts: Scripts, phone: str) -> bool:
    """Whether a person was erased at least once since it was asked for."""
    return await scripts.redis.hget(keys.ERASURES, phone) != "0"


async def set_passed(scripts: Scripts, phone: str, now_ms: int, lid: str) -> None:
    await scripts.redis.hset(keys.ERASURES, phone, f"{now_ms} {lid}")


async def finish(scripts: Scripts, phone: str) -> None:
    await scripts.redis.hdel(keys.ERASURES, phone)


async def cancel_open(scripts: Scripts, name: str) -> int:
    """Cancel what waits for a person under a name; return how many messages a worker has, which must end first."""
    found = [each async for each in open_messages.unended(scripts, keys.messages_to(name)) if each.to == name]
    places = {each.id: Place.of(each) for each in found}
    outcomes = [await queues.cancel(scripts, place, reason=REASON) for place in places.values()]
    return sum(not isinstance(outcome, queues.Ended) for outcome in outcomes)


async def erase_messages(scripts: Scripts, name: str) -> list[str]:
    """Erase the messages to a person under a name that have ended; return their ids."""
    ids: Any = await scripts.redis.zrange(keys.messages_to(name), 0, -1)
    return [each for each in map(str, ids) if await retention.erase(scripts, each, until_ms=FOREVER_MS)]


async def erase_incoming(scripts: Scripts, names: Collection[str]) -> None:
    """Erase incoming messages of a person, known by these names (a phone, `lid:…`)."""
    first = 0
    while copies := await incoming_messages.copies(scripts, FOREVER_MS, most=_PAGE, first=first):
        theirs = [each for each in copies if each.contact in names]
        await incoming_messages.remove(scripts, theirs)
        first += len(copies) - len(theirs)


async def erase_events(scripts: Scripts, names: Collection[str], messages: Collection[str]) -> None:
    """Erase events that name a person, or one of these messages, from the stream."""
    cursor = "0"
    while entries := await event_stream.read(scripts, after=cursor, most=_PAGE):
        cursor = entries[-1].cursor
        theirs = [
            each
            for each in entries
            if event_stream.contact_of(each) in names or each.fields.get("message", "-") in messages
        ]
        for each in theirs:  # also of an earlier version, which kept no list of incoming messages
            if {"session", "whatsapp_id"} <= each.fields.keys():
                await scripts.redis.delete(keys.incoming(each.fields["session"], each.fields["whatsapp_id"]))
        await event_stream.remove(scripts, [each.cursor for each in theirs])


async def erase_facts(scripts: Scripts, phone: str, lid: str) -> None:
    """Erase what is known about a person, without forgetting that they opted out."""
    sessions: Any = await scripts.redis.smembers(keys.SESSIONS_ALL)
    found = await scripts.each(lambda pipe, key: pipe.hget(key, "phone"), map(keys.session, sorted(sessions)))
    pipe = scripts.redis.pipeline(transaction=True)
    names = (phone, f"lid:{lid}") if lid else (phone,)
    for own in sorted({str(each) for each in found if each}):
        pipe.srem(keys.contacts(own), *names)
        pipe.zrem(keys.unanswered(own), *names)
        pipe.zrem(keys.answered(own), *names)
    pipe.zrem(keys.UNCONFIRMED, *names)
    pipe.delete(keys.lid_of(phone), keys.phone_of(lid), *map(keys.affinity, names))
    for name in names:  # of limited keys
        async for record in scripts.redis.scan_iter(match=keys.affinity(f"*:{name}"), count=_PAGE):
            pipe.delete(record)
        async for record in scripts.redis.scan_iter(match=keys.notices("*", name), count=_PAGE):
            pipe.delete(record)
    if lid:
        async for record in scripts.redis.scan_iter(match=keys.username("*", "*"), count=_PAGE):
            if await scripts.redis.get(record) == lid:
                pipe.delete(record)
    for name in names:
        if known := await contacts.opt_out_of(scripts, name):
            pipe.hset(keys.OPT_OUTS, name, json.dumps({"at_ms": known.at_ms, "word": "", "via": known.via}))
    await pipe.execute()
    await conversation_records.remove_of(scripts, [phone, *([f"lid:{lid}"] if lid else [])])
