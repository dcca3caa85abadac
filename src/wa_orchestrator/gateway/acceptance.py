"""Takes messages in: sender, limits, idempotency, and the answer with its eta. What must be true is in the scripts."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.domain.message import whatsapp_id
from wa_orchestrator.domain.pacing import Because, Forecast, WaitUntil
from wa_orchestrator.domain.routing import Why
from wa_orchestrator.errors import Broken, OrchestratorError, Refused, Unavailable
from wa_orchestrator.gateway import replies, sender_choice
from wa_orchestrator.gateway.content_loader import Content
from wa_orchestrator.gateway.hot_path.admission_batch import Admitting, Outcome
from wa_orchestrator.gateway.hot_path.redis_pipeline import Batcher, uncertain
from wa_orchestrator.gateway.message_ids import RandomIds
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.sender_pool import RECENT_S, Choice, PoolSnapshot, SenderPool
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.admission import (
    UNCOUNTED,
    Accepted,
    DayFull,
    Idempotency,
    NewMessage,
    QueueFull,
    Rate,
    Replayed,
    Room,
    Wanted,
    wanted,
)
from wa_orchestrator.store.leases import Limited, read_rate
from wa_orchestrator.store.records import MessageChanges

#: How long a repeated request waits for the answer of the first, which is being written at this moment.
_ANSWER_S: Final = 1.0
_FIRST_LOOK_S: Final = 0.004
#: How often another sender is tried when the one with the most room turns out to be full.
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Order:
    """A checked message that shall be taken in."""

    send: SendBody
    content: Content
    api_key: str
    idempotency: Idempotency | None = None
    due_ms: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """It is in. `answer` is the JSON that the client gets, the same for every repeat."""

    answer: str
    is_replay: bool = False


@dataclass(slots=True)
class Attempt:
    """A message on its way in: who sends it, by which look at the fleet, and what Redis is asked."""

    order: Order
    choice: Choice
    fleet: PoolSnapshot
    message: NewMessage
    forecast: Forecast
    wanted: Wanted


def idempotency(api_key: str, key: str | None, canonical: bytes) -> Idempotency | None:
    """Give the record of a request that came with a key of its client's."""
    if key is None:
        return None
    return Idempotency(api_key, hashlib.sha256(key.encode()).hexdigest(), hashlib.sha256(canonical).hexdigest())


class Taking:
    """Takes messages in over one `Batcher`."""

    def __init__(self, settings: Settings, batcher: Batcher, view: SenderPool) -> None:
        self._settings = settings
        self._batcher = batcher
        self._view = view
        self._admitting = Admitting(batcher)
        self._ids = RandomIds()
        self._rates: dict[str, Rate] = {}

    def rate_of(self, api_key: str) -> Rate:
        """How often a key may call."""
        rate = self._rates.get(api_key)
        if rate is None:
            per_minute = self._settings.rate_limit_per_minute
            rate = self._rates[api_key] = Rate(api_key, 60_000 / per_minute, per_minute)
        return rate

    async def count(self, api_key: str) -> None:
        """Count a call that takes nothing in; raises when the key calls too often."""
        rate = self.rate_of(api_key)
        verdict = read_rate(await self._batcher.run("spend_rate", [keys.rate(api_key)], [rate.gap_ms, rate.burst, 1]))
        if isinstance(verdict, Limited):
            raise replies.rate_limited(verdict)

    async def known(self, record: Idempotency) -> Taken | None:
        """Give the answer of an earlier request with this key, or None. Raises for another body."""
        name = keys.idempotency(record.api_key_id, record.key_hash)
        fingerprint, message_id, answer = await self._batcher.call("HMGET", name, "fingerprint", "message", "answer")
        if fingerprint is None:
            return None
        if fingerprint != record.fingerprint:
            raise replies.conflict()
        return await self._replay(record, Replayed(message_id, answer or ""))

    async def take(self, order: Order, rate: Rate | None) -> Taken:
        """Take one message in; `rate` is counted in the same step. Raises what the client is to be told."""
        try:
            affinity = await self._affinity(order.send) if sender_choice.is_free(order.send) else None
            fleet, choice = await self._choose(order.send, affinity)
        except Refused:
            if rate is not None:
                await self.count(rate.api_key_id)
            raise
        attempt, outcome = await self._tried(order, choice, fleet, rate)
        for _ in range(_TRIES):
            if not isinstance(outcome, DayFull | QueueFull) or choice.why is not Why.MOST_ROOM:
                break
            # The look at the fleet was older than the truth: the next one in line may have room.
            choice.sender.room_today = min(0, choice.sender.room_today)
            choice = sender_choice.choose(fleet, order.send, None)
            if choice.sender.room_today <= 0:
                break
            attempt, outcome = await self._tried(order, choice, fleet, None)
        return await self._conclude(attempt, outcome)

    async def take_many(self, orders: Sequence[Order]) -> list[Taken | OrchestratorError]:
        """Take messages in, in their order; each has its own outcome. Calls are not counted."""
        free = [order.send.to for order in orders if sender_choice.is_free(order.send)]
        spoke = dict(zip(free, await self._batcher.many([("GET", keys.affinity(to)) for to in free]), strict=True))
        prepared: list[Attempt | OrchestratorError] = []
        for order in orders:
            try:
                fleet, choice = await self._choose(order.send, spoke.get(order.send.to))
                prepared.append(await self._prepare(order, choice, fleet))
            except Refused as error:
                prepared.append(error)
        going = [each.wanted for each in prepared if isinstance(each, Attempt)]
        outcomes = iter(await self._admitting.admit(UNCOUNTED, going))
        return [await self._settle(each, next(outcomes)) if isinstance(each, Attempt) else each for each in prepared]

    def at_once(
        self, order: Order, choice: Choice, fleet: PoolSnapshot, tell: Callable[[str | Exception], None]
    ) -> bool:
        """Take a message in of which all is known; `tell` gets its answer. False when something must be asked first."""
        forecast = self._view.forecast_at_hand(choice.sender)
        if forecast is None or not self._batcher.has_room:
            return False
        attempt = self._attempt(order, choice, fleet, forecast)

        def done(outcome: Outcome | OrchestratorError) -> None:
            try:
                answer: str | Exception = _told(attempt, outcome)
            except Exception as error:  # whatever it is, the client is waiting
                answer = error
            tell(answer)

        self._admitting.submit(self.rate_of(order.api_key), attempt.wanted, done)
        return True

    async def _settle(self, attempt: "Attempt", outcome: Outcome | OrchestratorError) -> Taken | OrchestratorError:
        try:
            if isinstance(outcome, OrchestratorError):
                attempt.choice.give_back()
                return outcome
            if isinstance(outcome, DayFull | QueueFull) and attempt.choice.why is Why.MOST_ROOM:
                attempt.choice.give_back()
                return await self.take(attempt.order, None)
            return await self._conclude(attempt, outcome)
        except OrchestratorError as error:
            return error

    async def _affinity(self, send: SendBody) -> str | None:
        spoke: str | None = await self._batcher.call("GET", keys.affinity(send.to))
        return spoke

    async def _choose(self, send: SendBody, affinity: str | None) -> tuple[PoolSnapshot, Choice]:
        fleet = await self._view.current()
        try:
            return fleet, sender_choice.choose(fleet, send, affinity)
        except Refused:
            fleet = await self._view.current(fresh_s=RECENT_S)
            return fleet, sender_choice.choose(fleet, send, affinity)

    async def _prepare(self, order: Order, choice: Choice, fleet: PoolSnapshot) -> "Attempt":
        # Asked before it is accepted: what is accepted must be answered, whatever Redis does next.
        return self._attempt(order, choice, fleet, await self._view.forecast(fleet, choice.sender))

    def _attempt(self, order: Order, choice: Choice, fleet: PoolSnapshot, forecast: Forecast) -> "Attempt":
        choice.reserve()
        send, sender = order.send, choice.sender
        digits = self._ids.draw()
        kind, body = order.content
        fields = MessageChanges(
            kind=kind, body=body, api_key=order.api_key, pinned=sender_choice.pin(send), why=choice.why.value
        )
        if send.reference is not None:
            fields["reference"] = send.reference
        message = NewMessage(
            f"m_{digits.hex()}",
            whatsapp_id(digits),
            sender.session.phone,
            sender.session.id,
            send.to,
            send.priority,
            order.due_ms or send.send_at or 0,
            send.expires_at or 0,
            fields,
        )
        defer_to_ms = sender.reopens_ms if send.on_limit == "defer" else 0
        room = Room(self._settings.queue_limit, sender.pace.per_day, sender.day_ms[0], defer_to_ms)
        return Attempt(order, choice, fleet, message, forecast, wanted(message, room, order.idempotency))

    async def _tried(
        self, order: Order, choice: Choice, fleet: PoolSnapshot, rate: Rate | None
    ) -> "tuple[Attempt, Outcome]":
        attempt = await self._prepare(order, choice, fleet)
        outcome = (await self._admitting.admit(rate or UNCOUNTED, [attempt.wanted]))[0]
        if isinstance(outcome, OrchestratorError):
            choice.give_back()
            raise outcome
        return attempt, outcome

    async def _conclude(self, attempt: "Attempt", outcome: Outcome) -> Taken:
        record = attempt.order.idempotency
        if isinstance(outcome, Replayed):
            attempt.choice.give_back()
            return await self._replay(record, outcome)
        answer = _told(attempt, outcome)
        if record is not None:
            await self._remember(record, answer)
        return Taken(answer)

    async def _remember(self, record: Idempotency, answer: str) -> None:
        name = keys.idempotency(record.api_key_id, record.key_hash)
        try:
            await self._batcher.call("HSETNX", name, "answer", answer)
        except Unavailable as error:  # it is in; a repeat with the same key says so
            raise uncertain() from error

    async def _replay(self, record: Idempotency | None, replayed: Replayed) -> Taken:
        """Give the first answer again. Where its server died before it was written, it is made anew, once."""
        answer = replayed.answer
        if record is not None and not answer:
            answer = await self._wait_for_answer(record) or await self._make_anew(record, replayed.message_id)
        return Taken(answer, is_replay=True)

    async def _wait_for_answer(self, record: Idempotency) -> str:
        name = keys.idempotency(record.api_key_id, record.key_hash)
        pause_s, waited_s = _FIRST_LOOK_S, 0.0
        while waited_s < _ANSWER_S:
            await asyncio.sleep(pause_s)
            if answer := await self._batcher.call("HGET", name, "answer"):
                return str(answer)
            waited_s += pause_s
            pause_s *= 2
        return ""

    async def _make_anew(self, record: Idempotency, message_id: str) -> str:
        fleet = await self._view.current()
        message = await records.message(self._batcher.scripts, message_id)
        if message is None:
            raise Refused("NO_SUCH_MESSAGE", "This Idempotency-Key belongs to a message that was erased.", 409)
        sender = fleet.senders.get(message.session)
        if sender is None:
            raise Refused("NO_SUCH_SESSION", f"There is no session {message.session} any more.", 404)
        forecast = await self._view.forecast(fleet, sender)
        await self._remember(record, replies.taken(message.id, message.session, 1, forecast.eta(0)))
        return str(await self._batcher.call("HGET", keys.idempotency(record.api_key_id, record.key_hash), "answer"))


def _told(attempt: Attempt, outcome: Outcome | OrchestratorError) -> str:
    """Write what the client is told about a message that is in; raises what it is told about one that is not."""
    if isinstance(outcome, Accepted):
        return _answer(attempt, outcome)
    attempt.choice.give_back()
    match outcome:
        case OrchestratorError():
            raise outcome
        case Limited():
            raise replies.rate_limited(outcome)
        case Replayed():
            raise Broken("a message without an idempotency key was replayed")
        case _:
            raise replies.refusal(outcome, attempt.choice.sender, attempt.fleet.now_ms())


def _answer(attempt: Attempt, accepted: Accepted) -> str:
    """Write what the client is told about a message that is in."""
    message, forecast = attempt.message, attempt.forecast
    if not accepted.due_ms:
        eta = forecast.eta(accepted.ahead, accepted.now_ms)
    else:
        eta = forecast.eta_after(WaitUntil(accepted.due_ms, Because.SCHEDULED))
        eta = eta if accepted.due_ms == message.due_ms else replies.deferred(eta)
    return replies.taken(message.id, message.session, accepted.ahead + 1, eta)
