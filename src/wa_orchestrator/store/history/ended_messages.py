"""Messages on their way to the archive and back: copied whole, removed when the copy is safe, restored when needed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.record_codec import decode
from wa_orchestrator.store.records import Message, timeline_of


@dataclass(frozen=True, slots=True)
class MessageCopy:
    """A message that has ended, as Redis stores it: the fields of its hash, also unknown ones, and its timeline."""

    id: str
    fields: Mapping[str, str]
    timeline: Sequence[str]
    ended_at: int

    @property
    def accepted_at(self) -> int:
        return int(float(self.fields["accepted_at"]))

    @property
    def record(self) -> Message:
        return decode(Message, self.fields)

    @property
    def steps(self) -> list[tuple[int, str, str]]:
        """The timeline as `records.timeline` returns it."""
        return timeline_of(self.accepted_at, self.timeline)


def removal_layout(message_id: str, fields: Mapping[str, str]) -> list[str]:
    """Return the keys of the removal layout (see `lua/shared/_removal.lua`), in its order."""
    return [
        keys.message(message_id), keys.timeline(message_id), keys.ENDED, keys.DEAD, keys.ALL_MESSAGES,
        keys.messages_of_session(fields.get("session") or ""), keys.messages_to(fields.get("to") or ""),
        keys.messages_with_reference(fields.get("reference") or ""), keys.messages_of_batch(fields.get("batch") or ""),
        keys.STATUSES,
    ]  # fmt: skip


async def copies(scripts: Scripts, until_ms: int, *, most: int) -> list[MessageCopy]:
    """Return copies of the messages that ended first, at `until_ms` at the latest.

    One whose hash is missing has no fields: `remove` takes it off the list.
    """
    found: Any = await scripts.redis.zrangebyscore(keys.ENDED, "-inf", until_ms, start=0, num=most, withscores=True)
    pipe = scripts.redis.pipeline(transaction=False)
    for message_id, _ in found:
        pipe.hgetall(keys.message(message_id))
        pipe.lrange(keys.timeline(message_id), 0, -1)
    replies: list[Any] = await pipe.execute() if found else []
    rows = zip(found, replies[::2], replies[1::2], strict=True)
    return [MessageCopy(str(name), fields, lines, int(ended_at)) for (name, ended_at), fields, lines in rows]


async def remove(scripts: Scripts, copied: Sequence[MessageCopy]) -> int:
    """Remove messages that are safe in the archive; return how many. One that changed since it was copied stays."""
    return sum(await asyncio.gather(*(_remove(scripts, each) for each in copied)))


async def _remove(scripts: Scripts, copy: MessageCopy) -> bool:
    flat = [part for pair in copy.fields.items() for part in pair]
    args: list[Argument] = [copy.id, copy.ended_at, len(copy.timeline), *flat]
    names = removal_layout(copy.id, copy.fields)
    return await scripts.whether("remove_archived_message", names, args, removed=True, gone=True, changed=False)


async def restore(scripts: Scripts, copy: MessageCopy) -> bool:
    """Bring a message back from the archive; False when it is in Redis already."""
    flat = [part for pair in copy.fields.items() for part in pair]
    args: list[Argument] = [copy.id, copy.ended_at, len(copy.timeline), *copy.timeline, *flat]
    names = removal_layout(copy.id, copy.fields)
    return await scripts.whether("restore_archived_message", names, args, restored=True, already=False)
