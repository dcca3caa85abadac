"""What one message costs the dispatcher: no round in vain, and few writes to Redis."""

import json
from typing import Any

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, Scenario, settle
from wa_orchestrator.dispatcher.dispatcher import LONGEST_SLEEP_S
from wa_orchestrator.dispatcher.releaser import BATCH
from wa_orchestrator.store import due_items, keys
from wa_orchestrator.store.due_items import Due
from wa_orchestrator.store.engine.redis_line import RedisLine
from wa_orchestrator.store.messages import queues

A, B = "972500000001", "972500000002"
LONGEST_SLEEP_MS = int(LONGEST_SLEEP_S * 1000)


def limits(pause_ms: int) -> str:
    return json.dumps({"opens": "00:00", "closes": "00:00", "pause_base_ms": pause_ms, "pause_range_ms": 0})


async def _due_ms(scenario: Scenario, phone: str) -> float | None:
    return await scenario.scripts.redis.zscore(keys.DUE, phone)


async def test_after_a_release_the_dispatcher_sleeps_until_something_is_due(scenario: Scenario) -> None:
    await scenario.connect("w1", A, limits=limits(5000))
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    message = await scenario.accept("w1", A)
    await dispatcher.router.step()
    assert await dispatcher.step() > 0.0
    assert await scenario.status(message) == "scheduled"


async def test_a_release_is_six_writes_to_redis(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    await scenario.connect("w1", A, limits=limits(5000))
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    await scenario.accept("w1", A)
    await dispatcher.router.step()
    written: list[int] = []
    flush = RedisLine._flush

    def counted(line: RedisLine) -> None:
        written.append(1)
        flush(line)

    monkeypatch.setattr(RedisLine, "_flush", counted)
    assert (await dispatcher.releaser.step()).phones == 1
    # Take what is due; its queue; the message and who has its phone; these sessions; release it; settle the phone.
    assert len(written) == 6


async def test_a_phone_is_due_when_its_pause_ends_and_not_before(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A, limits=limits(5000))
    dispatcher = scenario.dispatcher()
    first, second = await scenario.accept("w1", A), await scenario.accept("w1", A)
    await settle(dispatcher)
    await clock.set(NOON + 700)
    assert await scenario.send("w1", A) == first
    assert await _due_ms(scenario, A) == NOON + 700 + 5000
    assert (await dispatcher.releaser.step()).phones == 0, "nothing to look at during the pause"
    await clock.set(NOON + 700 + 5000)
    await settle(dispatcher)
    assert await scenario.status(second) == "scheduled"


@pytest.mark.parametrize(
    ("pause_ms", "announced"),
    [(LONGEST_SLEEP_MS - 1, 1), (LONGEST_SLEEP_MS, 0)],
    ids=["shorter than the longest sleep", "seen by itself"],
)
async def test_only_a_pause_that_ends_while_dispatchers_sleep_is_announced(
    scenario: Scenario, pause_ms: int, announced: int
) -> None:
    await scenario.connect("w1", A, limits=limits(pause_ms))
    await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    message = await scenario.claim("w1", A)
    assert message is not None
    before = await _calls(scenario, "publish")
    await scenario.ack(message)
    assert await _calls(scenario, "publish") - before == announced


async def test_the_next_instant_is_told_with_what_is_due(scenario: Scenario) -> None:
    redis = scenario.scripts.redis
    await redis.zadd(keys.DUE, {A: NOON, B: NOON + 300})
    taken = await due_items.take(scenario.scripts, Due.PHONES, most=BATCH, away_ms=5000)
    assert (taken.items, taken.next_ms) == ((A,), NOON + 300)
    served = await scenario.dispatcher().releaser.step()
    assert served.next_ms == NOON + 300, "the dispatcher sleeps until then"


async def test_a_phone_that_is_woken_while_it_is_served_is_due_at_once(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scenario.connect("w1", A, limits=limits(5000))
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    await scenario.accept("w1", A)
    await dispatcher.router.step()
    release = queues.release

    async def woken_meanwhile(*args: Any, **more: Any) -> Any:
        await queues.wake(scenario.scripts, A)
        return await release(*args, **more)

    monkeypatch.setattr(queues, "release", woken_meanwhile)
    served = await dispatcher.releaser.step()
    assert served.next_ms is not None
    assert served.next_ms <= served.now_ms


@pytest.mark.parametrize("pause_ms", [5_000, 60_000], ids=["within", "beyond what a dispatcher takes it for"])
async def test_a_phone_whose_ack_comes_while_it_is_looked_at_does_not_fall_asleep(
    scenario: Scenario, pause_ms: int
) -> None:
    await scenario.connect("w1", A, limits=limits(pause_ms))
    dispatcher = scenario.dispatcher()
    await scenario.accept("w1", A)
    await settle(dispatcher)
    first = await scenario.claim("w1", A)
    assert first is not None
    await scenario.accept("w1", A)
    await dispatcher.router.step()
    taken = await due_items.take(scenario.scripts, Due.PHONES, most=BATCH, away_ms=10_000)
    assert taken.items == (A,)
    await scenario.ack(first)
    # The dispatcher saw a message in flight: its ack was to wake the phone.
    await due_items.settle(scenario.scripts, Due.PHONES, A, taken.mark, next_ms=None)
    assert await _due_ms(scenario, A) is not None


async def _calls(scenario: Scenario, command: str) -> int:
    stats: Any = await scenario.scripts.redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])
