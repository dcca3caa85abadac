"""Reads indexes of messages, the newest first, by the time of acceptance."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages.message_keys import Place, locate_all
from wa_orchestrator.store.messages.open_messages import job_pages
from wa_orchestrator.store.records import Message
from wa_orchestrator.timestamps import FOREVER_MS

IndexEntry = tuple[str, int]
"""A message id and when the message was accepted."""


async def page(
    scripts: Scripts,
    index: str,
    *,
    after: IndexEntry | None = None,
    from_ms: int | None = None,
    until_ms: int | None = None,
    most: int,
) -> list[IndexEntry]:
    """Return the next entries of an index after `after` (None: from the start), accepted between the two instants."""
    low: str | int = "-inf" if from_ms is None else from_ms
    high: str | int = "+inf" if until_ms is None else until_ms
    same_instant: list[Any] = []
    if after is not None:
        message_id, accepted_at = after
        rank: Any = await scripts.redis.zrevrank(index, message_id)
        if rank is not None:
            raw: Any = await scripts.redis.zrevrange(index, rank + 1, rank + most, withscores=True)
            return [(str(each), int(at)) for each, at in raw if from_ms is None or at >= from_ms]
        # The last entry of the page before is a job, or was erased meanwhile.
        raw = await scripts.redis.zrevrangebyscore(index, accepted_at, accepted_at)
        same_instant = [(each, accepted_at) for each in raw if each < message_id]
        high = f"({accepted_at}"
    raw = await scripts.redis.zrevrangebyscore(index, high, low, start=0, num=most, withscores=True)
    return [(str(each), int(at)) for each, at in (*same_instant, *raw)][:most]


async def remove(scripts: Scripts, index: str, message_ids: Collection[str]) -> None:
    """Remove entries whose messages have moved to the archive and left their place in the index behind."""
    await scripts.redis.zrem(index, *message_ids)


async def page_of_statuses(
    scripts: Scripts,
    statuses: Iterable[str],
    session: str = "",
    *,
    after: IndexEntry | None = None,
    from_ms: int | None = None,
    until_ms: int | None = None,
    most: int,
) -> list[IndexEntry]:
    """Return the same for messages with one of these statuses, of one session or ('') of all."""
    last = f"{until_ms:013d} ~" if until_ms is not None else "~"  # `~` sorts after every digit and letter
    if after is not None:
        last = min(last, f"{after[1]:013d} {after[0]}")
    first = f"{from_ms or 0:013d} "
    pipe = scripts.redis.pipeline(transaction=False)
    for status in statuses:
        prefix = f"{session}:{status} "
        pipe.zrevrangebylex(keys.STATUSES, f"({prefix}{last}", f"[{prefix}{first}", start=0, num=most)
    members: list[str] = [member for found in await pipe.execute() for member in found]
    entries = [(name, int(at)) for _, at, name in (member.split(" ") for member in members)]
    return sorted(entries, key=newest_last, reverse=True)[:most]


async def page_of_jobs(
    scripts: Scripts,
    is_match: Callable[[Message], bool],
    *,
    after: IndexEntry | None = None,
    from_ms: int | None = None,
    until_ms: int | None = None,
    most: int,
) -> list[IndexEntry]:
    """Return the same for messages that match and are not routed yet: they are in no index."""
    low, high = from_ms or 0, FOREVER_MS if until_ms is None else until_ms
    found: set[IndexEntry] = set()
    async for ids in job_pages(scripts):
        oldest = await records.messages(scripts, ids[:1])
        if oldest and oldest[0].accepted_at > (high if after is None else min(high, after[1])):
            continue  # all of this page are newer: no need to read them
        jobs = [each for each in await records.messages(scripts, ids) if low <= each.accepted_at <= high]
        entries = [(each.id, each.accepted_at) for each in jobs if is_match(each)]
        found.update(entry for entry in entries if after is None or newest_last(entry) < newest_last(after))
        if len(found) >= most or (oldest and oldest[0].accepted_at < low):
            break
    return sorted(found, key=newest_last, reverse=True)[:most]


async def changes_of(scripts: Scripts, session: str, whatsapp_ids: Sequence[str]) -> list[IndexEntry]:
    """Return the incoming messages in Redis that change one of these messages of a session."""
    pipe = scripts.redis.pipeline(transaction=False)
    for whatsapp_id in whatsapp_ids:
        pipe.zrange(keys.changes_of(session, whatsapp_id), 0, -1, withscores=True)
    replies: list[Any] = await pipe.execute() if whatsapp_ids else []
    return [(str(name), int(at)) for found in replies for name, at in found]


def newest_last(entry: IndexEntry) -> tuple[int, str]:
    """Return what entries are sorted by."""
    return entry[1], entry[0]


async def add_older(scripts: Scripts, *, most: int) -> int:
    """Index messages that an earlier version stored, the newest first; return how many, 0 when all are indexed."""
    mark: Any = await scripts.redis.get(keys.STATUSES_INDEXED)
    if mark == "0":
        return 0
    entries = await page(scripts, keys.ALL_MESSAGES, until_ms=None if mark is None else int(mark), most=most)
    if entries:
        # All messages of the last millisecond, so that the next step can begin before it.
        last = entries[-1][1]
        whole: Any = await scripts.redis.zrangebyscore(keys.ALL_MESSAGES, last, last)
        await _index(scripts, list({name for name, _ in entries} | {str(name) for name in whole}))
    await scripts.redis.set(keys.STATUSES_INDEXED, max(0, entries[-1][1] - 1) if entries else 0)
    return len(entries)


async def _index(scripts: Scripts, ids: Sequence[str]) -> None:
    await asyncio.gather(*(add_to_statuses(scripts, place) for place in await locate_all(scripts, ids)))


async def add_to_statuses(scripts: Scripts, place: Place) -> None:
    """Index a message by its status, and by its due instant if it is not due yet."""
    names = [keys.message(place.message), keys.STATUSES, keys.SCHEDULED, keys.later(place.phone)]
    await scripts.whether("index_message", names, [place.message, place.phone], indexed=True, gone=False)


async def count_newer(scripts: Scripts, than_ms: int) -> int:
    return int(await scripts.redis.zcount(keys.ALL_MESSAGES, f"({than_ms}", "+inf"))
