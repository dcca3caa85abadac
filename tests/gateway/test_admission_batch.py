"""Messages that arrive together share a script call, and each gets its own outcome."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.gateway.conftest import Gate
from tests.waiting import PATIENCE_S
from wa_orchestrator.errors import Broken, OrchestratorError
from wa_orchestrator.gateway.hot_path.admission_batch import BatchingRedis
from wa_orchestrator.gateway.redis_access import ADMIT, Outcome
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.redis_line import Command, OnReplies
from wa_orchestrator.store.messages.admission import (
    MOST_AT_ONCE,
    UNCOUNTED,
    Accepted,
    NewMessage,
    OptedOut,
    Room,
    Wanted,
    wanted,
)

ROOM = Room(10**6, 10**6, 0)


def _wanted(number: int, to: str = "97251") -> Wanted:
    return wanted(NewMessage(f"m_{number:018x}", f"3EB0{number:018X}", "97250", "w1", to), ROOM, None)


def _redis(gate: Gate) -> BatchingRedis:
    redis = gate.gateway.redis
    assert isinstance(redis, BatchingRedis)
    return redis


async def _script_calls(gate: Gate) -> int:
    stats = await gate.redis.info("commandstats")
    return sum(int(stats[f"cmdstat_{name}"]["calls"]) for name in ("eval", "evalsha") if f"cmdstat_{name}" in stats)


async def test_what_comes_in_one_turn_of_the_loop_costs_one_call_and_keeps_its_order(gate: Gate) -> None:
    redis = _redis(gate)
    await redis.admit(UNCOUNTED, [_wanted(0)])  # the script is loaded
    before = await _script_calls(gate)
    outcomes = await redis.admit(UNCOUNTED, [_wanted(number) for number in range(1, MOST_AT_ONCE + 11)])
    assert [each.ahead for each in outcomes if isinstance(each, Accepted)] == list(range(1, MOST_AT_ONCE + 11))
    assert await _script_calls(gate) - before == 2
    assert await gate.queued() == [f"m_{number:018x}" for number in range(MOST_AT_ONCE + 11)]


async def test_what_became_of_each_is_told_also_when_one_is_broken(gate: Gate) -> None:
    await gate.redis.set(keys.pace("97259"), "somebody has damaged it")
    message = NewMessage("m_9", "3EB09", "97259", "w1", "97251")
    broken = wanted(message, ROOM, None)
    outcomes = await _redis(gate).admit(UNCOUNTED, [_wanted(1), broken, _wanted(2)])
    assert [type(each) for each in outcomes] == [Accepted, Broken, Accepted]


async def test_a_call_that_redis_did_not_understand_is_sent_again(gate: Gate) -> None:
    await gate.redis.script_flush()
    outcomes = await _redis(gate).admit(UNCOUNTED, [_wanted(number) for number in range(MOST_AT_ONCE)])
    assert [each.ahead for each in outcomes if isinstance(each, Accepted)] == list(range(MOST_AT_ONCE))


async def test_several_calls_keep_their_order_when_the_script_is_loaded_between_them(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = _redis(gate)
    line = redis.scripts.line
    _, text, *_ = redis.scripts.whole_command(ADMIT, [], [])
    send = line.send

    def send_and_load(commands: Sequence[Command], on_replies: OnReplies) -> None:
        send(commands, on_replies)
        send([("SCRIPT", "LOAD", text)], lambda _: None)

    await gate.redis.script_flush()
    monkeypatch.setattr(line, "send", send_and_load)
    outcomes = await redis.admit(UNCOUNTED, [_wanted(number) for number in range(3 * MOST_AT_ONCE)])
    assert [each.ahead for each in outcomes if isinstance(each, Accepted)] == list(range(3 * MOST_AT_ONCE))


async def test_one_that_is_refused_or_cannot_be_told_does_not_touch_its_neighbours(gate: Gate) -> None:
    await gate.redis.hset(keys.OPT_OUTS, "972522222222", "{}")
    redis, heard = _redis(gate), []
    all_told = asyncio.Event()

    def deaf(_: Outcome | OrchestratorError) -> None:
        raise RuntimeError("the client has hung up")

    def last(outcome: Outcome | OrchestratorError) -> None:
        heard.append(outcome)
        all_told.set()

    redis.submit(UNCOUNTED, _wanted(1), deaf)
    redis.submit(UNCOUNTED, _wanted(2, "972522222222"), heard.append)
    redis.submit(UNCOUNTED, _wanted(3), last)
    async with asyncio.timeout(PATIENCE_S):
        await all_told.wait()
    assert heard[0] == OptedOut()
    assert isinstance(heard[1], Accepted)
    assert heard[1].ahead == 1
    assert redis.has_room
