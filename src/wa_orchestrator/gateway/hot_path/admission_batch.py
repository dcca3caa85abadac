"""Admits all messages of one turn of the event loop with one script call, and gives each its own outcome.

While `MAX_CALLS` or more calls are pending, new messages wait for one of them to return: the busier Redis is, the more
messages share a call, and the less each of them costs.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from wa_orchestrator.errors import Broken, OrchestratorError
from wa_orchestrator.gateway.redis_access import ADMIT, Outcome, PlainRedis, read_outcome, translated
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.errors import NoScriptError, RedisError
from wa_orchestrator.store.messages.admission import MOST_AT_ONCE, Call, Rate, Wanted, admit_call

MAX_CALLS: Final = 16

OnOutcome = Callable[[Outcome | OrchestratorError], None]

log = structlog.get_logger(__name__)


class BatchingRedis(PlainRedis):
    """`RedisAccess` of the hot path."""

    def __init__(self, scripts: Scripts) -> None:
        super().__init__(scripts)
        self._line = scripts.line
        self._messages: dict[Rate, list[tuple[Wanted, OnOutcome]]] = {}
        self._calls = 0
        self._is_scheduled = False
        self._retries: set[asyncio.Task[None]] = set()

    @property
    def has_room(self) -> bool:
        """Whether another message may wait."""
        return self._line.has_room

    def submit(self, rate: Rate, message: Wanted, on_outcome: OnOutcome) -> None:
        """Admit a message with the next batch and count its call; raises when too many wait already."""
        self._enter(1)
        self._add(rate, message, on_outcome)

    async def admit(self, rate: Rate, messages: Sequence[Wanted]) -> list[Outcome | OrchestratorError]:
        """Admit messages in their order, each with its own outcome, and count each as a call against `rate`."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Outcome | OrchestratorError]] = [loop.create_future() for _ in messages]
        self._enter(len(messages))
        for message, future in zip(messages, futures, strict=True):
            self._add(rate, message, _resolve(future))
        return await asyncio.gather(*futures)

    def _enter(self, messages: int) -> None:
        try:  # no context manager: for every message it would take as long as to parse it
            self._line.enter(messages)
        except RedisError as error:
            raise translated(error) from error

    def _add(self, rate: Rate, message: Wanted, on_outcome: OnOutcome) -> None:
        self._messages.setdefault(rate, []).append((message, on_outcome))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._calls < MAX_CALLS:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_batches)

    def _send_batches(self) -> None:
        self._is_scheduled = False
        by_rate, self._messages = self._messages, {}
        for rate, waiting in by_rate.items():
            # Of several calls the first could miss the script, and the next find it loaded by somebody else.
            command = self.scripts.command if len(waiting) <= MOST_AT_ONCE else self.scripts.whole_command
            for start in range(0, len(waiting), MOST_AT_ONCE):
                batch = waiting[start : start + MOST_AT_ONCE]
                call = admit_call(rate, [message for message, _ in batch])
                callbacks = [on_outcome for _, on_outcome in batch]
                self._calls += 1
                self._line.send([command(ADMIT, *call)], partial(self._received, call, callbacks))

    def _received(self, call: Call, callbacks: Sequence[OnOutcome], replies: list[Any] | RedisError) -> None:
        reply = replies[0] if isinstance(replies, list) else replies
        if isinstance(reply, NoScriptError):  # Redis was restarted; nothing was done
            task = asyncio.get_running_loop().create_task(self._send_again(call, callbacks))
            self._retries.add(task)
            task.add_done_callback(self._retries.discard)
        else:
            self._report(reply, callbacks)

    async def _send_again(self, call: Call, callbacks: Sequence[OnOutcome]) -> None:
        try:
            reply: Any = await self.scripts.run(ADMIT, *call)
        except RedisError as error:
            reply = error
        self._report(reply, callbacks)

    def _report(self, reply: Any, callbacks: Sequence[OnOutcome]) -> None:
        """Call back for each message of a call with its outcome, or with the error of the whole call."""
        outcomes: Sequence[Outcome | OrchestratorError]
        try:
            if isinstance(reply, RedisError):
                raise translated(reply)
            outcomes = [read_outcome(each) for each in reply]
        except OrchestratorError as error:
            outcomes = [error] * len(callbacks)
        except Exception as error:  # whatever it is, the clients are waiting
            outcomes = [Broken(f"cannot read the reply of {ADMIT}: {type(error).__name__}")] * len(callbacks)
        self._calls -= 1
        self._line.leave(len(callbacks))
        if self._messages:
            self._schedule()
        for on_outcome, outcome in zip(callbacks, outcomes, strict=True):
            try:
                on_outcome(outcome)
            except Exception as error:  # an error in one callback must not keep the others from their outcomes
                log.error("request.failed", exc_info=error)


def _resolve(future: "asyncio.Future[Outcome | OrchestratorError]") -> OnOutcome:
    def resolve(outcome: Outcome | OrchestratorError) -> None:
        if not future.done():
            future.set_result(outcome)

    return resolve
