"""The place of a message, and the keys that every message script takes in one order."""

from collections.abc import Sequence
from dataclasses import dataclass

from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_homes
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message


@dataclass(frozen=True, slots=True)
class Place:
    """A message with the phone and the session it belongs to: enough to name all its keys."""

    message: str
    phone: str
    session: str

    @classmethod
    def of(cls, message: Message) -> "Place":
        """Return the place that a message has by its record."""
        return cls(message.id, message.phone, message.session)


async def locate(scripts: Scripts, message_id: str) -> Place | None:
    phone, session = await scripts.redis.hmget(keys.message(message_id), ["phone", "session"])
    return Place(message_id, str(phone), str(session)) if phone is not None and session is not None else None


async def locate_all(scripts: Scripts, ids: Sequence[str]) -> list[Place]:
    """Return the places of these messages in one round trip, without those that are gone."""
    found = await scripts.each(lambda pipe, key: pipe.hmget(key, ["phone", "session"]), map(keys.message, ids))
    return [Place(name, *place) for name, place in zip(ids, found, strict=True) if None not in place]


def layout(place: Place) -> list[str]:
    """Return the keys of the message layout (see `lua/shared/_message.lua`), in its order."""
    return [
        keys.message(place.message), keys.timeline(place.message), keys.COUNTS, keys.EVENTS,
        keys.queue(place.phone), keys.set_aside(place.phone), keys.outbox(place.session), keys.LEASES,
        keys.pace(place.phone), keys.sent(place.phone), keys.DUE, keys.session(place.session), keys.ENDED,
        keys.EXPIRING, keys.DEAD, keys.STATUSES,
    ]  # fmt: skip


async def conversation_of(scripts: Scripts, place: Place) -> list[str]:
    """Return the keys by which a message answers its conversation (`lua/shared/_answer.lua`)."""
    to, answered = await scripts.redis.hmget(keys.message(place.message), ["to", "answers_in"])
    name = await conversation_homes.of_message(
        scripts, place.phone, place.session, str(to or ""), answered=str(answered or "")
    )
    return [keys.conversation(*name), keys.CONVERSATION_INDEX]


def counted_in(session: str, day: str) -> tuple[str, str]:
    """Return the keys that count a message on a day (`20250131`): its session's and that of all sessions.

    With '' for the session, because none could send it, it is counted in the latter alone.
    """
    of_all = keys.day_stats(day)
    return (keys.stats(session, day) if session else of_all, of_all)


def head(place: Place) -> list[str | int | float]:
    """Return the first three arguments of every message script."""
    return [place.message, place.phone, place.session]
