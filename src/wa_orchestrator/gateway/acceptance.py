"""Accepts messages: chooses the sender, applies limits and idempotency, and writes the response with its eta.

What must hold under any race is decided by the script `admit_messages`.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from wa_orchestrator.domain.access.permissions import EVERYTHING, Reach
from wa_orchestrator.domain.messages.message import whatsapp_id
from wa_orchestrator.domain.messages.sender_policy import Why
from wa_orchestrator.domain.pacing.forecast import Forecast
from wa_orchestrator.domain.recipient import is_group
from wa_orchestrator.errors import Broken, OrchestratorError, Refused
from wa_orchestrator.gateway import replies
from wa_orchestrator.gateway.content_loader import Content
from wa_orchestrator.gateway.idempotency import StoredResponses
from wa_orchestrator.gateway.redis_access import Outcome, RedisAccess
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.senders import sender_choice
from wa_orchestrator.gateway.senders.conversations import Conversation, Conversations, record_of
from wa_orchestrator.gateway.senders.sender_pool import RECENT_S, Choice, PoolSnapshot, SenderPool
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.leases import Limited, read_rate
from wa_orchestrator.store.messages.admission import (
    UNCOUNTED,
    Accepted,
    DayFull,
    Idempotency,
    NewMessage,
    OtherSender,
    QueueFull,
    Rate,
    Replayed,
    Room,
    Wanted,
    wanted,
)
from wa_orchestrator.store.records import MessageChanges

#: How often another sender is tried when the chosen one is full, or the recipient has got a sender meanwhile.
_TRIES: Final = 5
#: The sender has no conversation with the recipient, so another may take its place.
_REPLACEABLE: Final = frozenset({Why.MOST_ROOM, Why.NONE_READY})
_ID_BYTES: Final = 9


class SendRequest(NamedTuple):
    """A validated message to accept."""

    body: SendBody
    content: Content
    api_key: str
    idempotency: Idempotency | None = None
    due_ms: int = 0
    batch: str = ""
    reach: Reach = EVERYTHING
    """The sessions that may send it."""
    id_bytes: bytes = b""
    """What its id is made of, where that follows from something else; random otherwise."""


@dataclass(frozen=True, slots=True)
class SendReply:
    """The message is accepted. `json` is the response, the same for every repeat of the request."""

    json: str
    is_replay: bool = False


@dataclass(slots=True)
class Attempt:
    """A message with its chosen sender, ready to be admitted."""

    request: SendRequest
    choice: Choice
    snapshot: PoolSnapshot
    message: NewMessage
    forecast: Forecast
    wanted: Wanted
    strangers: int = 0
    """How many messages of the same request go to strangers from its phone before it."""

    def response(self, outcome: Outcome | OrchestratorError) -> str:
        """Return the response for an accepted message; raises the error for any other outcome."""
        if isinstance(outcome, Accepted):
            return self._accepted(outcome)
        self.choice.unreserve()
        match outcome:
            case OrchestratorError():
                raise outcome
            case Limited():
                raise replies.rate_limited(outcome)
            case Replayed():
                raise Broken("a message without an idempotency key was replayed")
            case OtherSender():  # the recipient's conversation moves all the time
                raise replies.unavailable()
            case _:
                raise replies.refusal(outcome, self.choice.sender, self.snapshot.now_ms())

    def _accepted(self, accepted: Accepted) -> str:
        turn = accepted.turn
        if turn is None:
            eta = self.forecast.eta(accepted.ahead, accepted.now_ms)
            position = accepted.ahead + 1
        else:
            eta = self.forecast.eta_of_turn(turn, accepted.ahead)
            eta = eta if turn.due_ms == self.message.due_ms else eta.deferred()
            position = accepted.ahead + turn.before + 1
        warning = replies.EARLIER_UNCONFIRMED if accepted.is_after_unconfirmed else ""
        standing = self.choice.sender.standing
        warnings = standing.warnings(self.strangers) if accepted.is_to_stranger else ()
        return replies.accepted(
            self.message.id, self.message.session, position, eta, warning=warning, warnings=warnings
        )


class Acceptor:
    """Accepts messages over one `RedisAccess`."""

    def __init__(self, settings: Settings, redis: RedisAccess, pool: SenderPool) -> None:
        self.stored = StoredResponses(redis, pool)
        self._settings = settings
        self._redis = redis
        self._pool = pool
        self._ids = _random_ids()
        self._rates: dict[str, Rate] = {}
        self.conversations = Conversations(redis)

    def rate_of(self, api_key: str) -> Rate:
        """Return the rate limit of a key."""
        rate = self._rates.get(api_key)
        if rate is None:
            per_minute = self._settings.rate_limit_per_minute
            rate = self._rates[api_key] = Rate(api_key, 60_000 / per_minute, per_minute)
        return rate

    async def count_call(self, api_key: str) -> None:
        """Count a call against the key's rate; raises when it is exceeded."""
        rate = self.rate_of(api_key)
        verdict = read_rate(await self._redis.run("spend_rate", [keys.rate(api_key)], [rate.gap_ms, rate.burst, 1]))
        if isinstance(verdict, Limited):
            raise replies.rate_limited(verdict)

    async def accept(self, request: SendRequest, rate: Rate = UNCOUNTED) -> SendReply:
        """Accept one message and count its call against `rate` in the same step. Raises the error for the client."""
        conversation = await self.conversations.find(request.body, request.api_key, request.reach)
        try:
            snapshot, choice = await self._choose(request, conversation)
        except Refused:
            if rate is not UNCOUNTED:
                await self.count_call(rate.api_key_id)
            raise
        attempt, outcome = await self._try(request, choice, snapshot, rate, conversation.sender)
        for _ in range(_TRIES):
            if isinstance(outcome, OtherSender):  # another message to this recipient was accepted meanwhile
                choice.unreserve()
                conversation = self.conversations.correct(conversation, outcome.session)
                snapshot, choice = await self._choose(request, conversation)
            elif isinstance(outcome, DayFull | QueueFull) and choice.why in _REPLACEABLE:
                # The snapshot was outdated: the next sender may have room.
                choice.sender.room_today = min(0, choice.sender.room_today)
                choice = sender_choice.choose(snapshot, request.body, None, request.reach)
                if choice.sender.room_today <= 0:
                    break
            else:
                break
            attempt, outcome = await self._try(request, choice, snapshot, UNCOUNTED, conversation.sender)
        return await self._conclude(attempt, outcome)

    def is_retried(self, attempt: Attempt, outcome: Outcome | OrchestratorError) -> bool:
        """Whether another sender is to be tried: the recipient has one already, or this one has no room any more."""
        is_full = isinstance(outcome, DayFull | QueueFull) and attempt.choice.why in _REPLACEABLE
        return is_full or isinstance(outcome, OtherSender)

    async def retry(self, attempt: Attempt, outcome: Outcome | OrchestratorError) -> SendReply:
        """Accept a message whose first try is to be repeated with another sender; its call is counted already."""
        attempt.choice.unreserve()
        if isinstance(outcome, OtherSender):
            self.conversations.correct(Conversation(attempt.message.conversation), outcome.session)
        return await self.accept(attempt.request)

    async def accept_many(self, requests: Sequence[SendRequest]) -> list[SendReply | OrchestratorError]:
        """Accept messages of one client in their order, each with its own outcome. Calls are not counted."""
        api_key, reach = (requests[0].api_key, requests[0].reach) if requests else ("", EVERYTHING)
        found = await self.conversations.find_many([request.body for request in requests], api_key, reach)
        begun: dict[str, Conversation] = {}
        chosen: list[tuple[PoolSnapshot, Choice, str | None] | Refused] = []
        for request, read in zip(requests, found, strict=True):
            is_free = sender_choice.is_free(request.body)
            conversation = begun.get(read.record, read) if is_free else read
            try:
                snapshot, choice = await self._choose(request, conversation)
            except Refused as error:
                chosen.append(error)
                continue
            choice.reserve()
            chosen.append((snapshot, choice, conversation.sender))
            if is_free:  # the next message to this recipient follows this one
                begun[read.record] = Conversation(read.record, choice.sender.session.id)
        forecasts = await self._forecasts([each for each in chosen if not isinstance(each, Refused)])
        prepared: list[Attempt | OrchestratorError] = [
            each if isinstance(each, Refused) else self.attempt(request, each[1], each[0], next(forecasts), each[2])
            for request, each in zip(requests, chosen, strict=True)
        ]
        attempts = [each for each in prepared if isinstance(each, Attempt)]
        admitted = await self._redis.admit(UNCOUNTED, [attempt.wanted for attempt in attempts])
        _count_strangers(attempts, admitted)
        outcomes = iter(admitted)
        return [await self._settle(each, next(outcomes)) if isinstance(each, Attempt) else each for each in prepared]

    def attempt(
        self,
        request: SendRequest,
        choice: Choice,
        snapshot: PoolSnapshot,
        forecast: Forecast,
        affinity: str | None = None,
    ) -> Attempt:
        """Return the message as it is to be stored. The caller has reserved its place at the sender.

        `affinity` is the session that had the conversation when the sender was chosen.
        """
        body, sender = request.body, choice.sender
        random = request.id_bytes or next(self._ids)
        kind, content = request.content
        fields: MessageChanges = {
            "kind": kind,
            "body": content,
            "api_key": request.api_key,
            "pinned": sender_choice.pin(body, request.reach),
            "why": choice.why,
            "reference": body.reference or "",
            "batch": request.batch,
        }
        message = NewMessage(
            f"m_{random.hex()}",
            whatsapp_id(random),
            sender.session.phone,
            sender.session.id,
            body.to,
            body.priority,
            request.due_ms or body.send_at or 0,
            body.expires_at or 0,
            fields,
            (affinity or "") if sender_choice.is_free(body) else None,
            record_of(body, request.api_key, request.reach),
            # Of a batch all are: it may itself be the many in a row.
            (bool(request.batch) or sender.standing.is_watched) and not is_group(body.to),
        )
        defer_to_ms = sender.reopens_ms if body.on_limit == "defer" else 0
        room = Room(self._settings.queue_limit, sender.pace.per_day, sender.day_ms[0], defer_to_ms)
        return Attempt(request, choice, snapshot, message, forecast, wanted(message, room, request.idempotency))

    async def _forecasts(self, chosen: Sequence[tuple[PoolSnapshot, Choice, str | None]]) -> Iterator[Forecast]:
        """Return the forecast of each choice's sender, all in one round trip."""
        asked = (self._pool.forecast(snapshot, choice.sender) for snapshot, choice, _ in chosen)
        return iter(await asyncio.gather(*asked))

    async def _settle(self, attempt: Attempt, outcome: Outcome | OrchestratorError) -> SendReply | OrchestratorError:
        try:
            if self.is_retried(attempt, outcome):
                return await self.retry(attempt, outcome)
            return await self._conclude(attempt, outcome)
        except OrchestratorError as error:
            return error

    async def _choose(self, request: SendRequest, conversation: Conversation) -> tuple[PoolSnapshot, Choice]:
        snapshot = await self._pool.current()
        try:
            affinity = conversation.affinity(snapshot, request.reach)
            choice = sender_choice.choose(snapshot, request.body, affinity, request.reach)
            if choice.why is not Why.NONE_READY:
                return snapshot, choice
        except Refused:
            pass
        snapshot = await self._pool.current(fresh_s=RECENT_S)
        affinity = conversation.affinity(snapshot, request.reach)
        return snapshot, sender_choice.choose(snapshot, request.body, affinity, request.reach)

    async def _try(
        self, request: SendRequest, choice: Choice, snapshot: PoolSnapshot, rate: Rate, affinity: str | None
    ) -> tuple[Attempt, Outcome | OrchestratorError]:
        # The forecast comes first: an accepted message must get its response, whatever Redis does next.
        forecast = await self._pool.forecast(snapshot, choice.sender)
        choice.reserve()
        attempt = self.attempt(request, choice, snapshot, forecast, affinity)
        return attempt, (await self._redis.admit(rate, [attempt.wanted]))[0]

    async def _conclude(self, attempt: Attempt, outcome: Outcome | OrchestratorError) -> SendReply:
        record = attempt.request.idempotency
        if record is not None and isinstance(outcome, Replayed):
            attempt.choice.unreserve()
            return SendReply(await self.stored.replay(record, outcome), is_replay=True)
        response = attempt.response(outcome)
        if record is not None:
            self.stored.store_soon(record, response)
        return SendReply(response)


def _count_strangers(attempts: Sequence[Attempt], outcomes: Sequence[Outcome | OrchestratorError]) -> None:
    """Tell each message how many before it go to strangers from the same phone."""
    counts: Counter[str] = Counter()
    for attempt, outcome in zip(attempts, outcomes, strict=True):
        attempt.strangers = counts[attempt.message.phone]
        counts[attempt.message.phone] += isinstance(outcome, Accepted) and outcome.is_to_stranger


def _random_ids() -> Iterator[bytes]:
    """Yield random bytes for one id after another, read for 256 at a time: a read costs more than an id."""
    while True:
        random = secrets.token_bytes(_ID_BYTES * 256)
        yield from (random[at : at + _ID_BYTES] for at in range(0, len(random), _ID_BYTES))
