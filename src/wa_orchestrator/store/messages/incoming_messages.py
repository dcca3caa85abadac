"""Incoming messages on their way to the archive. One never changes after it was stored."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.messages.incoming import IncomingKind, id_of
from wa_orchestrator.domain.recipient import is_group, is_phone, lid_of
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import message_index
from wa_orchestrator.store.messages.message_index import IndexEntry

#: As in `receive_message.lua`.
_MOST_CHANGES: Final = 200


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

    @property
    def id(self) -> str:
        """Our id of it."""
        return id_of(self.session, self.whatsapp_id)

    @property
    def chat(self) -> str:
        """The contact or group of its conversation."""
        named = (self.fields.get(name, "") for name in ("contact_phone", "contact_lid", "group"))
        return conversation.contact_name(*named)

    @property
    def home(self) -> str:
        """The session that has its conversation."""
        return self.fields.get("home") or self.session

    @property
    def target(self) -> str:
        """WhatsApp's id of the message that it changes; '' for a message of its own."""
        return str((json.loads(self.fields.get("parts", "{}")).get("target") or {}).get("whatsappId", ""))


async def fields_of(scripts: Scripts, session: str, whatsapp_id: str) -> Mapping[str, str]:
    """Return the fields of an incoming message; none if it is not in Redis."""
    raw: Any = await scripts.redis.hgetall(keys.incoming(session, whatsapp_id))
    return dict(raw)


async def fields_of_each(scripts: Scripts, names: Sequence[tuple[str, str]]) -> list[Mapping[str, str]]:
    """Return the fields of each of these, by session and WhatsApp's id; none where it is not in Redis."""
    return await scripts.each(Pipeline.hgetall, [keys.incoming(*name) for name in names]) if names else []


async def latest_with(
    scripts: Scripts, *, after: IndexEntry | None = None, examined: int, most: int, matches: Callable[[str, str], bool]
) -> tuple[list[IncomingCopy], IndexEntry | None]:
    """Return at most so many messages in Redis whose session and text match, the newest first, of the next `examined`
    after an entry; and the last entry examined, None at the end.

    Of each only the text is read, and all fields of those that match: most of a search's time went into the others.
    """
    entries = await message_index.page(scripts, keys.INCOMING, after=after, most=examined)
    names = [_name(member) for member, _ in entries]
    texts = await scripts.each(lambda pipe, key: pipe.hget(key, "text"), [keys.incoming(*name) for name in names])
    hits = [n for n, text in enumerate(texts) if text and matches(names[n][0], text)]
    last = entries[hits[most - 1]] if len(hits) >= most else entries[-1] if len(entries) == examined else None
    raws = await fields_of_each(scripts, [names[n] for n in hits[:most]])
    found = zip(hits, raws, strict=False)
    return [IncomingCopy(*names[n], raw, entries[n][1]) for n, raw in found if raw], last


def _name(member: str) -> tuple[str, str]:
    session, _, whatsapp_id = member.partition(" ")
    return session, whatsapp_id


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


@dataclass(frozen=True, slots=True)
class OwnChange:
    """What we did to a message of a chat: a reaction ('' takes it back), another text, or its deletion."""

    session: str
    chat: str
    """A phone, `lid:…` or a group."""
    target: str
    """WhatsApp's id of the message."""
    kind: IncomingKind
    text: str = ""


async def put_own_change(scripts: Scripts, change: OwnChange, *, keep_ms: int) -> None:
    """Store a change of ours as one is stored that the owner makes on the phone: beside its target, as long as texts.

    The last of a kind counts; of one message as many changes are kept as `receive_message.lua` keeps.
    """
    now_ms = await scripts.now_ms()
    name = f"own-{change.kind}-{change.target}-{now_ms}"
    key, changes = keys.incoming(change.session, name), keys.changes_of(change.session, change.target)
    fields: dict[Any, str | int] = {
        "whatsapp_id": name, "kind": str(change.kind), "text": change.text, "received_at": now_ms, "direction": "out",
        "contact_phone": change.chat if is_phone(change.chat) else "", "contact_lid": lid_of(change.chat),
        "group": change.chat if is_group(change.chat) else "",
        "parts": json.dumps({"target": {"whatsappId": change.target}}),
    }  # fmt: skip
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hset(key, mapping=fields)
        pipe.pexpire(key, keep_ms)
        pipe.zadd(keys.INCOMING, {f"{change.session} {name}": now_ms})
        pipe.zadd(changes, {id_of(change.session, name): now_ms})
        pipe.zremrangebyrank(changes, 0, -_MOST_CHANGES - 1)
        pipe.pexpire(changes, keep_ms)
        await pipe.execute()


async def remove(scripts: Scripts, copied: Sequence[IncomingCopy]) -> None:
    """Remove messages that are safe in the archive, or to be erased."""
    if copied:
        async with scripts.redis.pipeline(transaction=True) as pipe:
            pipe.delete(*(keys.incoming(each.session, each.whatsapp_id) for each in copied))
            pipe.zrem(keys.INCOMING, *(f"{each.session} {each.whatsapp_id}" for each in copied))
            for each in copied:
                pipe.zrem(keys.thread(each.home, each.chat), each.id)
                if each.target:
                    pipe.zrem(keys.changes_of(each.session, each.target), each.id)
            await pipe.execute()
