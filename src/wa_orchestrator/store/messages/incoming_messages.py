"""Incoming messages on their way to the archive. One never changes after it was stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio.client import Pipeline

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


@dataclass(frozen=True, slots=True)
class IncomingCopy:
    """An incoming message as Redis stores it; without fields where it has ended by itself."""

    session: str
    whatsapp_id: str
    fields: Mapping[str, str]
    received_at: int

    @property
    def contact(self) -> str:
        """Who wrote it: the phone, or `lid:…` while only that is known."""
        phone, lid = self.fields.get("contact_phone"), self.fields.get("contact_lid")
        return phone or (f"lid:{lid}" if lid else "")


async def copies(scripts: Scripts, until_ms: int, *, most: int, first: int = 0) -> list[IncomingCopy]:
    """Return copies of the messages that came first, at `until_ms` at the latest, from the `first` of them on."""
    found: Any = await scripts.redis.zrangebyscore(
        keys.INCOMING, "-inf", until_ms, start=first, num=most, withscores=True
    )
    names = [str(member).partition(" ") for member, _ in found]
    raws = await scripts.each(Pipeline.hgetall, [keys.incoming(session, name) for session, _, name in names])
    return [
        IncomingCopy(session, name, raw, int(at))
        for (session, _, name), raw, (_, at) in zip(names, raws, found, strict=True)
    ]


async def remove(scripts: Scripts, copied: Sequence[IncomingCopy]) -> None:
    """Remove messages that are safe in the archive, or to be erased."""
    if copied:
        async with scripts.redis.pipeline(transaction=True) as pipe:
            pipe.delete(*(keys.incoming(each.session, each.whatsapp_id) for each in copied))
            pipe.zrem(keys.INCOMING, *(f"{each.session} {each.whatsapp_id}" for each in copied))
            await pipe.execute()
