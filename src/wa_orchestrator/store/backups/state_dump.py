"""Reads the state of Redis for a backup, as one JSON line per key, and loads it into an empty Redis.

A line is `[key, type, expires at ms or 0, values]`: portable between versions of Redis and Valkey, and readable.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio.client import Pipeline

from wa_orchestrator.errors import Broken
from wa_orchestrator.store import keys
from wa_orchestrator.store.backups.runs import RestoreStage
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.errors import RedisError

_BATCH = 500


@dataclass(frozen=True, slots=True)
class StateLine:
    """One key with everything in it. Values are flat: fields and values, members and scores; of a stream, entries."""

    key: str
    kind: str
    expires_at: int
    values: list[Any]

    def encode(self) -> str:
        return json.dumps([self.key, self.kind, self.expires_at, self.values], ensure_ascii=False)

    @property
    def pairs(self) -> dict[str, str]:
        """Return a hash's fields, or a sorted set's members with their scores."""
        return dict(zip(self.values[::2], self.values[1::2], strict=True))


KINDS = frozenset({"string", "hash", "list", "set", "zset", "stream"})


def decode(text: str) -> StateLine:
    """Read what `StateLine.encode` wrote. Raises ValueError for anything else."""
    key, kind, expires_at, values = json.loads(text)
    flat = [each for entry in values for each in (entry[0], *entry[1])] if kind == "stream" else values
    ok = isinstance(key, str) and kind in KINDS and isinstance(expires_at, int) and bool(flat)
    paired = kind not in ("hash", "zset") or len(values) % 2 == 0
    if not ok or not paired or not all(isinstance(each, str) for each in flat):
        raise ValueError("not a line of a backup")
    return StateLine(key, kind, expires_at, values)


async def read(scripts: Scripts) -> AsyncIterator[StateLine]:
    """Yield all that a backup holds. Queues and open messages are of one instant; history is of that one or later."""
    prefixes = [keys.NOT_BACKED_UP, keys.HISTORY, keys.OPEN_MESSAGES]
    args: list[Argument] = []
    for group in prefixes:
        args += [len(group), *group]
    reply = await scripts.run("read_state", [], [*args, keys.message(""), keys.timeline("")])
    known: set[str] = set()
    statuses: dict[str, str] = {}
    ids: set[str] = set()
    for text in reply[1:]:
        line = _from_script(json.loads(text))
        known.add(line.key)
        if line.key == keys.STATUSES:
            statuses = dict(map(_status_of, line.pairs))
        elif line.key == keys.ALL_MESSAGES:
            ids = set(line.pairs)
        if line.kind == "stream":
            line = replace(line, values=await _entries(scripts, line.key, until=line.values[0]))
        if line.values:
            yield line
    async for line in _history(scripts, known):
        if fixed := _as_of_then(line, ids, statuses):
            yield fixed


def _from_script(raw: Any) -> StateLine:
    key, kind, expires_at, values = raw
    return StateLine(key, kind, int(expires_at), [str(each) for each in values])


def _status_of(member: str) -> tuple[str, str]:
    """Return the message and the status that a member of the index tells of."""
    status, _, message_id = member.rpartition(":")[2].split(" ")
    return message_id, status


def _as_of_then(line: StateLine, ids: set[str], statuses: Mapping[str, str]) -> StateLine | None:
    """Return history as the queues knew it: without later messages, and with the status that the index has."""
    if line.key.startswith(keys.timeline("")):
        return line if line.key.removeprefix(keys.timeline("")) in ids else None
    message_id = line.key.removeprefix(keys.message(""))
    if not line.key.startswith(keys.message("")) or ":" in message_id:
        return line
    if message_id not in ids:
        return None
    fields = line.pairs | {"status": statuses.get(message_id, line.pairs["status"])}
    return replace(line, values=[part for pair in fields.items() for part in pair])


async def _entries(scripts: Scripts, key: str, *, until: str) -> list[Any]:
    found: list[Any] = []
    start = "-"
    while until:
        page: Any = await scripts.redis.xrange(key, min=start, max=until, count=_BATCH)
        found += [[cursor, [part for pair in fields.items() for part in pair]] for cursor, fields in page]
        if len(page) < _BATCH:
            break
        start = f"({page[-1][0]}"
    return found


async def _history(scripts: Scripts, known: set[str]) -> AsyncIterator[StateLine]:
    """Yield the keys of history in batches, those that still exist."""
    batch: list[str] = []
    for prefix in keys.HISTORY:
        async for key in scripts.redis.scan_iter(match=f"{prefix}*", count=_BATCH):
            if key not in known and not key.startswith(keys.NOT_BACKED_UP):
                known.add(key)
                batch.append(key)
            if len(batch) >= _BATCH:
                for line in await _read_batch(scripts, batch):
                    yield line
                batch = []
    for line in await _read_batch(scripts, batch):
        yield line


async def _read_batch(scripts: Scripts, batch: Sequence[str]) -> list[StateLine]:
    kinds = await scripts.each(Pipeline.type, batch)
    pipe = scripts.redis.pipeline(transaction=False)
    for key, kind in zip(batch, kinds, strict=True):
        _ask(pipe, key, kind)
        pipe.pexpiretime(key)
    replies = await pipe.execute(raise_on_error=False)
    found = []
    for key, kind, value, expires_at in zip(batch, kinds, replies[::2], replies[1::2], strict=True):
        if isinstance(value, RedisError):
            raise value
        if value:
            found.append(StateLine(key, kind, max(0, int(expires_at)), _flat(value)))
    return found


def _ask(pipe: Pipeline, key: str, kind: str) -> None:
    match kind:
        case "hash":
            pipe.hgetall(key)
        case "list":
            pipe.lrange(key, 0, -1)
        case "set":
            pipe.smembers(key)
        case "zset":
            pipe.zrange(key, 0, -1, withscores=True)
        case _:  # gone meanwhile, or a string
            pipe.get(key)


def _flat(value: Any) -> list[str]:
    match value:
        case dict():
            return [str(part) for pair in value.items() for part in pair]
        case list() if value and isinstance(value[0], tuple):
            return [str(part) for pair in value for part in pair]
        case list() | set():
            return [str(each) for each in value]
        case _:
            return [str(value)]


async def is_empty(scripts: Scripts) -> bool:
    """Whether this Redis knows no session and no message, so that a whole backup can be loaded."""
    accepted: Any = await scripts.redis.hget(keys.COUNTS, "accepted")
    return not await scripts.redis.exists(keys.SESSIONS_ALL) and not int(accepted or 0)


async def begin_load(scripts: Scripts, restore_id: str) -> bool:
    """Mark that this restore fills Redis. False if it is not empty, unless the same restore was interrupted."""
    if await scripts.redis.get(keys.RESTORE_LOADED) == restore_id:
        return True
    if not await is_empty(scripts):
        return False
    await scripts.redis.set(keys.RESTORE_LOADED, restore_id)
    return True


async def is_loading(scripts: Scripts) -> bool:
    """Whether a restore fills this Redis: what it contains is not the truth yet."""
    return bool(await scripts.redis.exists(keys.RESTORE_LOADED))


async def end_load(scripts: Scripts, restore_id: str, messages: Mapping[str, int]) -> None:
    """Mark that a restore has filled Redis, and what became of messages. It is not filled again after a crash."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.delete(keys.RESTORE_LOADED)
        mark = {"id": restore_id, "stage": RestoreStage.LOADED, "messages": json.dumps(messages)}
        pipe.hset(keys.RESTORE_STAGE, mapping=mark)  # type: ignore[arg-type]
        await pipe.execute()


async def loaded_messages(scripts: Scripts) -> dict[str, int]:
    """Return what became of the messages of the restore that has filled Redis."""
    found: Any = await scripts.redis.hget(keys.RESTORE_STAGE, "messages")
    counts: dict[str, int] = json.loads(found or "{}")
    return counts


async def load(scripts: Scripts, lines: Iterable[StateLine]) -> None:
    """Write all lines; what sets something in motion comes last, in one step. May be repeated."""
    last: list[StateLine] = []
    batch: list[StateLine] = []
    for line in lines:
        if line.key.startswith(keys.NOT_BACKED_UP):
            continue
        (last if line.key in keys.MOVING else batch).append(line)
        if len(batch) >= _BATCH:
            await _write(scripts, batch)
            batch = []
    await _write(scripts, batch)
    await _write(scripts, last)


async def _write(scripts: Scripts, lines: Sequence[StateLine]) -> None:
    if not lines:
        return
    pipe = scripts.redis.pipeline(transaction=True)
    for line in lines:
        if line.kind == "stream":
            await _add_before(scripts, pipe, line)
            continue
        if line.key not in keys.SHARED:
            pipe.delete(line.key)
        _put(pipe, line)
        if line.expires_at:
            pipe.pexpireat(line.key, line.expires_at)
    await pipe.execute()


async def _add_before(scripts: Scripts, pipe: Pipeline, line: StateLine) -> None:
    """Put the entries of a backup before those that came since: a stream takes none that is older than its last."""
    newest = line.values[-1][0]
    later: Any = await scripts.redis.xrange(line.key, min=f"({newest}", max="+")
    pipe.delete(line.key)
    for cursor, flat in line.values:
        pipe.xadd(line.key, dict(zip(flat[::2], flat[1::2], strict=True)), id=cursor)
    for cursor, fields in later:
        pipe.xadd(line.key, fields, id=cursor)


def _put(pipe: Pipeline, line: StateLine) -> None:
    match line.kind:
        case "string":
            pipe.set(line.key, line.values[0])
        case "hash":
            pipe.hset(line.key, mapping=line.pairs)  # type: ignore[arg-type]
        case "list":
            pipe.rpush(line.key, *line.values)
        case "set":
            pipe.sadd(line.key, *line.values)
        case "zset":
            pipe.zadd(line.key, line.pairs)
        case kind:
            raise Broken(f"a backup holds a key of type {kind}")


def session_id_of(key: str) -> str | None:
    """Return the session whose record a key is; None for every other key."""
    name = key.removeprefix(keys.session(""))
    return name if key.startswith(keys.session("")) and ":" not in name else None


def proxy_id_of(key: str) -> str | None:
    """Return the proxy whose record a key is; None for every other key."""
    name = key.removeprefix(keys.proxy(""))
    return name if key.startswith(keys.proxy("")) and ":" not in name else None
