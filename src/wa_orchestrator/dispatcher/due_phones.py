"""What a dispatcher needs to know of the phones that are due, read for all of them in three round trips."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain.sender_pin import Pin
from wa_orchestrator.session_pace import Holds
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message, Session

_PACE = ["in_flight", "silent_until", "lock_until", "burst_until"]


@dataclass(frozen=True, slots=True)
class View:
    """One phone as it was a moment ago. The scripts check everything again; this only saves useless calls."""

    phone: str
    in_flight: str
    silent_until_ms: int
    lock_until_ms: int
    burst_until_ms: int
    aside: int
    head: str
    message: Message | None
    sessions: Mapping[str, Session]

    @property
    def pin(self) -> Pin:
        """What the client has asked for about the sender."""
        return Pin.of(self.message.fields) if self.message else Pin.NOTHING

    @property
    def recorded(self) -> Session | None:
        """The session that the first message is recorded for, whatever phone it has now; None where it is gone."""
        return self.sessions.get(self.message.session) if self.message else None

    def sender(self) -> Session | None:
        """The session that sends the first message: the recorded one, or a connected sibling where it is not; None
        where the recorded one is gone and nobody may take its place.
        """
        if self.message is None:
            return None
        if self.pin is Pin.SESSION:
            return self.recorded
        siblings = [self.sessions[name] for name in sorted(self.sessions) if self.sessions[name].phone == self.phone]
        own = self.recorded if self.recorded in siblings else None
        if own is not None and own.status == "connected":
            return own
        return next((each for each in siblings if each.status == "connected"), own or next(iter(siblings), None))


@dataclass(frozen=True, slots=True)
class Views:
    """All phones that are due, and the holds, which concern them all."""

    now_ms: int
    holds: Holds
    phones: Sequence[View]


async def read(scripts: Scripts, phones: Sequence[str], now_ms: int) -> Views:
    """Read what a look at these phones needs. Who is silent anyway is not read any further."""
    holds, paces = await _paces(scripts, phones)
    asked = [pace.head for pace in paces if pace.may_speak(now_ms)]
    messages = {message.id: message for message in await records.messages(scripts, asked)}
    of_phone = await _sessions(scripts, sorted({message.phone for message in messages.values()}), messages)
    return Views(
        now_ms,
        holds,
        [
            View(
                pace.phone,
                pace.in_flight,
                pace.silent_until,
                pace.lock_until,
                pace.burst_until,
                pace.aside,
                pace.head,
                messages.get(pace.head),
                of_phone.get(pace.phone, {}),
            )
            for pace in paces
        ],
    )


@dataclass(frozen=True, slots=True)
class _Pace:
    phone: str
    in_flight: str
    silent_until: int
    lock_until: int
    burst_until: int
    aside: int
    head: str

    def may_speak(self, now_ms: int) -> bool:
        return bool(self.head) and not self.in_flight and self.silent_until <= now_ms


async def _paces(scripts: Scripts, phones: Sequence[str]) -> tuple[Holds, list[_Pace]]:
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for phone in phones:
            pipe.hmget(keys.pace(phone), _PACE)
            pipe.zrange(keys.queue(phone), 0, 0)
            pipe.zcard(keys.set_aside(phone))
        pipe.hgetall(keys.HOLDS)
        replies: list[Any] = await pipe.execute()
    holds = {name: json.loads(text) for name, text in replies.pop().items()}
    found = []
    for at, phone in enumerate(phones):
        pace, head, aside = replies[3 * at : 3 * at + 3]
        silent, lock, burst = (int(float(value or 0)) for value in pace[1:])
        found.append(_Pace(phone, pace[0] or "", silent, lock, burst, int(aside), head[0] if head else ""))
    return holds, found


async def _sessions(
    scripts: Scripts, phones: Sequence[str], messages: Mapping[str, Message]
) -> dict[str, dict[str, Session]]:
    """The sessions of each phone; a message's own session too, even if it is not linked to the phone (yet)."""
    if not phones:
        return {}
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for phone in phones:
            pipe.smembers(keys.sessions_of_phone(phone))
        linked: list[Any] = await pipe.execute()
    names = {phone: set(members) for phone, members in zip(phones, linked, strict=True)}
    for message in messages.values():
        names[message.phone].add(message.session)
    every = sorted(set().union(*names.values()))
    known = {session.id: session for session in await records.sessions(scripts, every)}
    return {phone: {name: known[name] for name in members if name in known} for phone, members in names.items()}
