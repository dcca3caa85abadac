"""From the gateway's jobs into the queues: each message to its phone, and another sender only where its own is gone."""

import asyncio
from typing import Any

import structlog

from wa_orchestrator.dispatcher import sender_choice
from wa_orchestrator.domain import pacing, send_attempts
from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.domain.sender_pin import Pin, is_left_behind
from wa_orchestrator.session_pace import day_of, pace_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, queues, records, reroutes
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.message_keys import Place
from wa_orchestrator.store.records import Message, Session

BATCH = 200
#: A session in one of these does not come back by itself: a person is needed.
_GIVEN_UP = frozenset({"failed", "stopped"})

log = structlog.get_logger(__name__)


class Router:
    """Moves accepted messages into their queues. Several may hold the same job; the script lets one of them move it."""

    def __init__(self, scripts: Scripts, settings: Settings) -> None:
        """Work on this store."""
        self._scripts = scripts
        self._settings = settings

    async def step(self) -> int:
        """Route what waits, at most `BATCH`; how many jobs were looked at."""
        ids: Any = await self._scripts.redis.lrange(keys.GATEWAY_JOBS, 0, BATCH - 1)
        if not ids:
            return 0
        messages = {message.id: message for message in await records.messages(self._scripts, ids)}
        names = sorted({message.session for message in messages.values()})
        sessions = {session.id: session for session in await records.sessions(self._scripts, names)}
        await asyncio.gather(*(self._drop(name) for name in ids if name not in messages))
        await asyncio.gather(*(self._route(each, sessions.get(each.session)) for each in messages.values()))
        await self._watch_bursts(messages, sessions)
        return len(ids)

    async def _drop(self, message_id: str) -> None:
        """A job without a message: its retention ended while no dispatcher ran."""
        await self._scripts.redis.lrem(keys.GATEWAY_JOBS, 1, message_id)

    async def _route(self, message: Message, session: Session | None) -> None:
        if message.status != "queued":  # it ended while it was a job; the script takes it off the list
            place = Place(message.id, message.phone, message.session)
            await queues.route(self._scripts, place, to=message.to)
        elif session is not None and is_left_behind(Pin.of(message.fields), message.phone, session.phone):
            await self.take_along(message, session)
        elif session is not None and (session.status not in _GIVEN_UP or Pin.of(message.fields) is Pin.SESSION):
            await self._enqueue(message, session)
        else:
            await self.find_sender(message, session)

    async def _enqueue(self, message: Message, session: Session) -> None:
        place = Place(message.id, message.phone, session.id)
        routed = await queues.route(self._scripts, place, to=message.to, reference=message.fields.get("reference", ""))
        if isinstance(routed, queues.NoSession):
            await self.find_sender(message, None)

    async def find_sender(self, message: Message, session: Session | None) -> bool:
        """Give a waiting message to another session, or to whoever keeps it until it can be sent; else it has failed.

        `session` is the recorded one, if it still exists. Says whether the message waits where it stands.
        """
        pinned = Pin.of(message.fields) is Pin.SESSION
        other = None if pinned else await sender_choice.find(self._scripts, self._settings, message)
        if other is not None and other.phone != message.phone:
            await self._hand_on(message, other)
            return False
        keeper = other or await sender_choice.keeper(self._scripts, message, session)
        if keeper is None:
            await self._give_up(message)
        elif keeper.phone in ("", message.phone):
            await self._enqueue(message, keeper)
            return True
        else:
            await self.take_along(message, keeper)
        return False

    async def _hand_on(self, message: Message, other: Session) -> None:
        place = Place(message.id, message.phone, message.session)
        moved = await reroutes.reroute(self._scripts, place, phone=other.phone, session=other.id)
        if isinstance(moved, reroutes.Rerouted):
            log.info("message.rerouted", message=message.id, session=other.id, was=message.session)

    async def _give_up(self, message: Message) -> None:
        place = Place(message.id, message.phone, message.session)
        counted = keys.stats_of_nobody(day_of(self._settings, None, await self._scripts.now_ms()))
        reason = Failure.SENDER_LOST if send_attempts.may_have_arrived(message.fields) else Failure.NO_SENDER
        await queues.fail(self._scripts, place, reason=reason, counted=counted)
        log.warning("message.no_sender", message=message.id, session=message.session, reason=reason.value)

    async def take_along(self, message: Message, session: Session) -> None:
        """Let a message follow its session to the phone which that has now, or fail where it may not."""
        day = day_of(self._settings, session, await self._scripts.now_ms())
        outcome = await reroutes.take_along(self._scripts, message, session, day=day)
        log.info("message.left_behind", message=message.id, session=session.id, outcome=type(outcome).__name__)

    async def _watch_bursts(self, messages: dict[str, Message], sessions: dict[str, Session]) -> None:
        # By the time of its own newest message: others that wait to be routed may be much younger.
        newest = {each.phone: each for each in sorted(messages.values(), key=lambda each: each.accepted_at)}
        found = [(each, sessions[each.session]) for each in newest.values() if each.session in sessions]
        minute_ms = int(self._settings.scaled(pacing.MINUTE_MS))
        async with self._scripts.redis.pipeline(transaction=False) as pipe:
            for last, _ in found:
                pipe.zcount(keys.submitted(last.phone), last.accepted_at - minute_ms, "+inf")
            counts: list[int] = await pipe.execute()
        for (last, session), count in zip(found, counts, strict=True):
            if pacing.is_burst(count, pace_of(self._settings, session, last.accepted_at)):
                await self._mark(last.phone, session, count)

    async def _mark(self, phone: str, session: Session, count: int) -> None:
        burst_ms = int(self._settings.scaled(pacing.BURST_MS))
        marked = await reroutes.mark_burst(self._scripts, phone, session=session.id, submitted=count, burst_ms=burst_ms)
        if isinstance(marked, reroutes.Burst):
            log.warning("session.burst", session=session.id, phone=phone, until_ms=marked.until_ms)
