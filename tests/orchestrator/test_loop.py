"""The loop runner: errors end a round and not the loop, only a leader steps, and a wake-up ends a wait."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.waiting import until
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.loop import Loop


class Scripted:
    """Each step takes the next entry: raises an exception, or returns a number of seconds; the last one repeats."""

    def __init__(self, *rounds: float | Exception) -> None:
        self._rounds = list(rounds)
        self.steps = 0

    async def step(self) -> float:
        self.steps += 1
        outcome = self._rounds.pop(0) if len(self._rounds) > 1 else self._rounds[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Seesaw:
    """Leadership that a test gives and takes."""

    def __init__(self) -> None:
        self._leading = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        return self._leading.is_set()

    async def acquired(self) -> None:
        await self._leading.wait()

    def give(self) -> None:
        self._leading.set()

    def take(self) -> None:
        self._leading.clear()


@asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run())
    try:
        yield task
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def at_least(steps: Scripted, number: int) -> Callable[[], bool]:
    return lambda: steps.steps >= number


@pytest.mark.parametrize(
    "errors",
    [
        [RedisConnectionError("gone"), OSError("gone"), Unavailable("AWAY", "gone")],
        [RuntimeError("a bug"), ValueError("another")],
    ],
)
async def test_an_error_ends_a_round_and_never_the_loop(errors: Sequence[Exception]) -> None:
    steps = Scripted(*errors, 0.001)
    async with running(Loop("test", steps.step)):
        await until(at_least(steps, len(errors) + 2), "the next step")


async def test_repeated_errors_are_retried_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr("wa_orchestrator.loop.asyncio.sleep", sleep)
    steps = Scripted(OSError("gone"))
    task = asyncio.create_task(Loop("test", steps.step).run())
    while len(slept) < 8:
        await real_sleep(0)
    task.cancel()
    assert slept[:7] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


async def test_only_the_leader_steps_and_a_loop_that_stands_by_is_told() -> None:
    steps, leadership, standbys = Scripted(0.001), Seesaw(), [0]

    def stand_by() -> None:
        standbys[0] += 1

    async with running(Loop("test", steps.step, leadership, on_standby=stand_by)):
        await until(lambda: standbys[0] == 1, "the call of on_standby")
        assert steps.steps == 0
        leadership.give()
        await until(at_least(steps, 3), "the next step")
        leadership.take()
        await until(lambda: standbys[0] == 2, "the call of on_standby")
        seen = steps.steps
        leadership.give()
        await until(at_least(steps, seen + 1), "the next step")


async def test_a_wake_up_ends_the_wait_between_two_rounds() -> None:
    steps, wake = Scripted(60.0), asyncio.Event()
    async with running(Loop("test", steps.step, wake=wake)):
        await until(at_least(steps, 1), "the next step")
        wake.set()
        await until(at_least(steps, 2), "the next step")
