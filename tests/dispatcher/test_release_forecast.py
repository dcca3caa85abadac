"""The release script decides whether a message may leave; in random situations the forecast names the same instant."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as tries
from hypothesis import strategies as st

from tests.conftest import HELD_CLOCK, Clock
from tests.dispatcher.scenario import Scenario, settings
from tests.store.mutants import mutants
from wa_orchestrator.dispatcher.release_permit import permit
from wa_orchestrator.domain.pacing.forecast import Eta
from wa_orchestrator.domain.pacing.limits import Override
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.messages.queue_forecast import facts_of, forecast_of, message_eta
from wa_orchestrator.messages.session_pace import encode_override
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts, read_sources
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.timestamps import FOREVER_MS

PHONE, TO, ZONE = "972500000001", "97251000001", "Asia/Jerusalem"
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Case:
    """A phone and its first message at `now_ms`; the other instants are relative to it, and 0 is none."""

    now_ms: int
    limits: Override
    sent_ago_ms: list[int]
    silent_ms: int
    hold_ms: int
    hold_on: str
    lock_ms: int
    cap_ms: int
    is_known: bool
    is_connected: bool


# Around the days on which the clock of the zone jumps, so that the jumps are met often.
starts = st.sampled_from([datetime(2026, 3, 26, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)])
hours = st.builds(time, st.integers(0, 23), st.sampled_from([0, 30]))
ends = st.sampled_from([0, 0, 20_000, 5 * HOUR_MS, 30 * HOUR_MS, FOREVER_MS])
cases = st.builds(
    Case,
    now_ms=st.builds(lambda day, ms: int(day.timestamp() * 1000) + ms, starts, st.integers(0, 48 * HOUR_MS)),
    limits=st.builds(
        Override, per_day=st.integers(1, 6), per_minute=st.integers(1, 4), opens=hours, closes=hours
    ),
    sent_ago_ms=st.lists(st.integers(0, 120_000) | st.integers(0, 40 * HOUR_MS), max_size=8, unique=True),
    silent_ms=st.integers(0, 90_000),
    hold_ms=ends,
    hold_on=st.sampled_from(["all", "session:w1", f"phone:{PHONE}", "group:elsewhere"]),
    lock_ms=ends,
    cap_ms=ends,
    is_known=st.booleans(),
    is_connected=st.sampled_from([True, True, True, False]),
)  # fmt: skip


async def set_up(scenario: Scenario, clock: Clock, case: Case) -> str:
    """Write the case into Redis; the id of its message."""
    redis = scenario.scripts.redis
    await redis.flushall()
    await clock.set(case.now_ms)
    await scenario.connect("w1", PHONE, timezone=ZONE, limits=encode_override(case.limits))
    message = await scenario.accept("w1", PHONE, to=TO)
    await queues.route(scenario.scripts, Place(message, PHONE, "w1"), to=TO)
    instants = {"silent_until": case.silent_ms, "lock_until": case.lock_ms, "cap_until": case.cap_ms}
    pace: dict[Any, Any] = {name: min(case.now_ms + ms, FOREVER_MS) for name, ms in instants.items()}
    await redis.hset(keys.pace(PHONE), mapping=pace | {"silence_ms": case.silent_ms})
    if case.sent_ago_ms:
        await redis.zadd(keys.sent(PHONE), {f"before#{ago}": case.now_ms - ago for ago in case.sent_ago_ms})
    if case.hold_ms:
        hold = {"until_ms": min(case.now_ms + case.hold_ms, FOREVER_MS), "why": "", "by": "test"}
        await redis.hset(keys.HOLDS, case.hold_on, json.dumps(hold))
    if case.is_known:
        await redis.sadd(keys.contacts(PHONE), TO)
    if not case.is_connected:
        await scenario.put("w1", "disconnected", "RECONNECTING")
    return message


async def forecast_eta(scenario: Scenario, message: str) -> Eta:
    session, found = await records.session(scenario.scripts, "w1"), await records.message(scenario.scripts, message)
    assert session is not None
    assert found is not None
    facts = await facts_of(scenario.scripts, session)
    forecast = forecast_of(scenario.settings, session, facts)
    limit = facts.phone.new_contacts
    eta = await message_eta(scenario.scripts, forecast, found, new_contacts=limit, now_ms=facts.now_ms)
    assert eta is not None
    return eta


async def released_at(scenario: Scenario, clock: Clock, message: str) -> int | None:
    """When the script lets the message go, if it is asked again at every instant that it names; None for never."""
    session = await records.session(scenario.scripts, "w1")
    assert session is not None
    for _ in range(20):
        now_ms = clock.now_ms
        limits = permit(scenario.settings, session, now_ms=now_ms, burst_until_ms=0, jitter=0.5)
        match await queues.release(scenario.scripts, Place(message, PHONE, "w1"), limits, other_name=TO):
            case queues.Released(at_ms):
                return at_ms
            case queues.Wait(until_ms):
                again_ms = until_ms
            case queues.Held(by):
                again_ms = (await records.holds(scenario.scripts))[by].until_ms
            case queues.SetAside():
                again_ms = (await records.phone_pace(scenario.scripts, PHONE, since_ms=0)).new_contacts.at_ms
            case queues.Offline():
                return None
            case other:
                raise AssertionError(other)
        if again_ms >= FOREVER_MS:
            return None
        assert again_ms > now_ms, "it would be asked for ever"
        await clock.set(again_ms)
        await queues.restore_set_aside(scenario.scripts, PHONE)
    raise AssertionError("it is never released")


def hold_together(url: str, sources: dict[str, str], how: tries) -> None:
    """Compare the forecast with the script in many cases."""
    with asyncio.Runner() as runner:
        redis = LineClient.from_url(url, decode_responses=True)
        clock = Clock(redis)
        scenario = Scenario(Scripts(redis, clock=HELD_CLOCK, sources=sources), settings())

        async def agree(case: Case) -> None:
            message = await set_up(scenario, clock, case)
            eta = await forecast_eta(scenario, message)
            leaves_ms = await released_at(scenario, clock, message)
            assert eta.at_ms == leaves_ms
            assert (eta.because is WaitReason.NOTHING) == (leaves_ms == case.now_ms)

        @how
        @given(cases)
        def try_all(case: Case) -> None:
            runner.run(agree(case))

        try:
            try_all()
        finally:
            runner.run(redis.aclose())


TRIES = tries(max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


def test_a_message_leaves_exactly_at_its_eta(redis_url: str) -> None:
    hold_together(redis_url, read_sources(), TRIES)


@pytest.mark.parametrize("guard", ["hours", "pause", "minute", "day", "hold", "connected", "reachout_lock", "cap"])
def test_the_forecast_disagrees_with_a_script_that_lacks_a_guard(guard: str, redis_url: str) -> None:
    maimed = next(mutant for mutant in mutants() if mutant.guard == guard).sources()
    with pytest.raises((AssertionError, ExceptionGroup)):
        hold_together(redis_url, maimed, tries(TRIES, phases=[Phase.generate]))
