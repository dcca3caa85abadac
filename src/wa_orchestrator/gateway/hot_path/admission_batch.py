"""Brings what came in within a turn of the loop to Redis in one call of `admit`, and each message its outcome.

While `MOST_AWAY` calls or more are under way, what comes in waits for one of them to return: the busier Redis is, the
more messages share a call, and the less each of them costs.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from wa_orchestrator.errors import Broken, OrchestratorError
from wa_orchestrator.gateway.hot_path.redis_pipeline import Batcher, checked, is_unknown_script, refusal
from wa_orchestrator.store.admission import MOST_AT_ONCE, Acceptance, Rate, Stumbled, Wanted, admit_call, read_admission
from wa_orchestrator.store.leases import Limited

MOST_AWAY: Final = 16

Outcome = Acceptance | Limited
Done = Callable[[Outcome | OrchestratorError], None]
"""What is to happen with an outcome."""

log = structlog.get_logger(__name__)


class Admitting:
    """Takes messages in, many at a time."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self._guests: dict[Rate, list[tuple[Wanted, Done]]] = {}
        self._away = 0
        self._is_leaving = False
        self._forgotten: list[_Round] = []
        self._reload: asyncio.Task[None] | None = None

    def submit(self, rate: Rate, wanted: Wanted, done: Done) -> None:
        """Take a message in, soon, and count its call; raises when too many wait already."""
        self._batcher.enter(1)
        self._join(rate, wanted, done)

    async def admit(self, rate: Rate, wanted: Sequence[Wanted]) -> list[Outcome | OrchestratorError]:
        """Take messages in, in this order; each has its own outcome. Raises when too many wait already."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Outcome | OrchestratorError]] = [loop.create_future() for _ in wanted]
        self._batcher.enter(len(wanted))
        for each, future in zip(wanted, futures, strict=True):
            self._join(rate, each, _settling(future))
        return await asyncio.gather(*futures)

    def returned(self, guests: int) -> None:
        """Note that a call is back."""
        self._away -= 1
        self._batcher.leave(guests)
        if self._guests:
            self._leave_soon()

    def again(self, round_: "_Round") -> None:
        """Send a call again: a restart of Redis has forgotten the script, so nothing was done."""
        self._forgotten.append(round_)
        if self._reload is None:
            self._reload = asyncio.get_running_loop().create_task(self._load_and_send())

    async def _load_and_send(self) -> None:
        """Teach Redis the scripts once, then send all that it did not understand, in their order."""
        error: OrchestratorError | None = None
        try:
            await self._batcher.load()
        except OrchestratorError as failed:
            error = failed
        rounds, self._forgotten, self._reload = self._forgotten, [], None
        for round_ in rounds:
            if error is None:
                self._batcher.send([round_.command], round_)
            else:
                round_.set_exception(error)

    def _join(self, rate: Rate, wanted: Wanted, done: Done) -> None:
        self._guests.setdefault(rate, []).append((wanted, done))
        self._leave_soon()

    def _leave_soon(self) -> None:
        if not self._is_leaving and self._away < MOST_AWAY:
            self._is_leaving = True
            asyncio.get_running_loop().call_soon(self._leave)

    def _leave(self) -> None:
        self._is_leaving = False
        guests, self._guests = self._guests, {}
        for rate, waiting in guests.items():
            for start in range(0, len(waiting), MOST_AT_ONCE):
                some = waiting[start : start + MOST_AT_ONCE]
                names, words = admit_call(rate, [wanted for wanted, _ in some])
                command = ("EVALSHA", self._batcher.scripts.digest("admit_messages"), len(names), *names, *words)
                self._away += 1
                self._batcher.send([command], _Round(self, command, [done for _, done in some]))


class _Round:
    """One call, and who waits for it. The line on which it travels resolves it like a future."""

    __slots__ = ("_dones", "_home", "_was_sent_again", "command")

    def __init__(self, home: Admitting, command: tuple[Any, ...], dones: Sequence[Done]) -> None:
        self.command = command
        self._home = home
        self._dones = dones
        self._was_sent_again = False

    def done(self) -> bool:
        """Whether nobody waits any more; a client that has gone does not take its message back."""
        return False

    def set_result(self, answers: list[Any]) -> None:
        """Give each message its outcome."""
        if is_unknown_script(answers[0]) and not self._was_sent_again:
            self._was_sent_again = True
            self._home.again(self)
            return
        try:
            outcomes = [_outcome(read_admission(reply)) for reply in checked(answers[0])]
        except OrchestratorError as error:
            self.set_exception(error)
        except Exception as error:  # whatever it is, the clients are waiting
            self.set_exception(Broken(f"admit answered what nobody understands: {type(error).__name__}"))
        else:
            self._tell(outcomes)

    def set_exception(self, error: OrchestratorError) -> None:
        """Tell everybody that it went wrong."""
        self._tell([error] * len(self._dones))

    def _tell(self, outcomes: Sequence[Outcome | OrchestratorError]) -> None:
        self._home.returned(len(self._dones))
        for done, outcome in zip(self._dones, outcomes, strict=True):
            try:
                done(outcome)
            except Exception as error:  # one that cannot be told must not keep the others from hearing
                log.error("request.broken", exc_info=error)


def _outcome(said: Outcome | Stumbled) -> Outcome | OrchestratorError:
    return refusal(said.error) if isinstance(said, Stumbled) else said


def _settling(future: "asyncio.Future[Outcome | OrchestratorError]") -> Done:
    def settle(outcome: Outcome | OrchestratorError) -> None:
        if not future.done():
            future.set_result(outcome)

    return settle
