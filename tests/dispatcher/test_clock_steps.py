"""Redis' clock is set: no phone falls silent for hours, no pause is broken, no lease lasts for ever."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, Scenario, settings
from wa_orchestrator.dispatcher.clock_steps import ClockSteps
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

PHONE = "972500000001"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
#: The longest pause of the session, and some rounds of its dispatcher.
SOON_MS = 10_000
PAUSE_MS = 5_000


@dataclass
class Machine:
    """A dispatcher, Redis' clock, and the time as it really is."""

    scenario: Scenario
    clock: Clock
    dispatcher: Dispatcher
    true_ms: int = 0

    async def live(self, ms: int, *, step_ms: int = 500) -> list[int]:
        """Let time pass, with a worker that sends at once; when it sent, by true time."""
        sent = []
        for _ in range(ms // step_ms):
            self.true_ms += step_ms
            await self.clock.pass_ms(step_ms)
            await self.dispatcher.step()
            if await self.scenario.send("w1", PHONE):
                sent.append(self.true_ms)
        return sent

    async def in_flight(self) -> None:
        """Let time pass until the next message is released, and claim nothing."""
        while not await self.scenario.scripts.redis.zcard(keys.LEASES):
            self.true_ms += 500
            await self.clock.pass_ms(500)
            await self.dispatcher.releaser.step()


@pytest.fixture
async def machine(held: Scripts, clock: Clock) -> Machine:
    """A phone that has just sent, with more in its queue, and pauses of five seconds."""
    await clock.set(NOON)

    class TrueTime(ClockSteps):
        def monotonic_s(self) -> float:
            return made.true_ms / 1000

    scenario = Scenario(held, settings(), clock_steps=TrueTime())
    made = Machine(scenario, clock, scenario.dispatcher())
    limits = '{"pause_base_ms": 5000, "pause_range_ms": 0, "per_minute": 1000, "per_day": 1000}'
    await scenario.connect("w1", PHONE, limits=limits)
    for _ in range(20):
        await scenario.accept("w1", PHONE)
    assert len(await made.live(1_000)) == 1
    return made


@pytest.mark.parametrize("step_ms", [-HOUR_MS, -10 * MINUTE_MS, -6_000, 6_000, 10 * MINUTE_MS, HOUR_MS])
async def test_a_step_of_the_clock_breaks_no_pause_and_silences_no_phone(machine: Machine, step_ms: int) -> None:
    last_ms = machine.true_ms
    await machine.clock.pass_ms(step_ms)
    first, *rest = await machine.live(30_000)
    assert first - last_ms + 500 >= 5_000
    assert first - last_ms <= SOON_MS + 2_000
    assert all(5_000 <= after - before <= 6_000 for before, after in zip([first, *rest], rest, strict=False))
    assert len(rest) >= 2


@pytest.mark.parametrize(
    "steps_ms",
    [
        (HOUR_MS, HOUR_MS),
        (HOUR_MS, -HOUR_MS),
        (-HOUR_MS, HOUR_MS),
        (HOUR_MS, -10 * MINUTE_MS),
        (-HOUR_MS, 10 * MINUTE_MS),
    ],
)
async def test_a_clock_that_is_set_twice_within_a_pause_breaks_it_no_more(
    machine: Machine, steps_ms: tuple[int, int]
) -> None:
    last_ms = machine.true_ms
    for step_ms in steps_ms:
        await machine.clock.pass_ms(step_ms)
        assert await machine.live(1_000) == []
    first, *_ = await machine.live(30_000)
    assert 5_000 <= first - last_ms + 500 <= SOON_MS + 2_000


async def test_small_steps_back_before_a_large_one_forward_break_no_pause(machine: Machine) -> None:
    last_ms = machine.true_ms
    for _ in range(4):
        await machine.clock.pass_ms(-1_000)
        assert machine.scenario.clock_steps.observe(await machine.scenario.scripts.now_ms()) is False
    await machine.clock.pass_ms(10 * MINUTE_MS)
    first, *_ = await machine.live(30_000)
    assert 5_000 <= first - last_ms + 500 <= SOON_MS + 4_000


async def test_a_message_that_lands_between_steps_back_and_a_step_forward_keeps_its_pause(machine: Machine) -> None:
    await machine.in_flight()
    message = await machine.scenario.claim("w1", PHONE)
    assert message
    for step_ms in (-10 * MINUTE_MS, -1_000):
        await machine.clock.pass_ms(step_ms)
        await machine.dispatcher.step()
    await machine.scenario.ack(message)
    last_ms = machine.true_ms
    await machine.clock.pass_ms(10 * MINUTE_MS)
    first, *_ = await machine.live(30_000)
    assert 5_000 <= first - last_ms + 500 <= SOON_MS + 2_000


async def test_a_pause_that_begins_before_a_step_is_noticed_outlasts_the_next_one(machine: Machine) -> None:
    await machine.in_flight()
    message = await machine.scenario.claim("w1", PHONE)
    assert message
    await machine.clock.pass_ms(HOUR_MS)
    await machine.scenario.ack(message)
    last_ms = machine.true_ms
    assert await machine.live(1_000) == []
    await machine.clock.pass_ms(HOUR_MS)
    first, *_ = await machine.live(30_000)
    assert 5_000 <= first - last_ms + 500 <= SOON_MS + 2_000


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
async def test_a_full_minute_before_the_clock_was_set_is_full_for_a_minute(machine: Machine, step_ms: int) -> None:
    await machine.scenario.scripts.redis.hset(
        keys.session("w1"), "limits", '{"pause_base_ms": 0, "pause_range_ms": 0, "per_minute": 2, "per_day": 1000}'
    )
    sent = await machine.live(6_000)
    await machine.clock.pass_ms(step_ms)
    sent += await machine.live(3 * MINUTE_MS, step_ms=1_000)
    assert len(sent) >= 5, "silent for longer than its minute"
    assert all(later - earlier >= MINUTE_MS - 1_000 for earlier, later in zip(sent, sent[2:], strict=False))


async def test_a_message_of_a_dead_worker_comes_back_within_a_lease_though_the_clock_was_set_back(
    machine: Machine,
) -> None:
    redis = machine.scenario.scripts.redis
    await machine.live(4_000)
    await machine.in_flight()
    assert await machine.scenario.claim("w1", PHONE)
    await machine.clock.pass_ms(-HOUR_MS)
    for _ in range(130):
        machine.true_ms += 1_000
        await machine.clock.pass_ms(1_000)
        await machine.dispatcher.sweeper.step()
    assert await redis.zcard(keys.LEASES) == 0


class PacedPhone(ClockSteps):
    """One phone and its pause as the release script keeps it, in plain Python: thousands of orders of steps are quick."""

    def __init__(self) -> None:
        super().__init__()
        self.true_ms = self.now_ms = self.last_ms = NOON
        self.silent_until = NOON + PAUSE_MS
        self.observe(self.now_ms)

    def monotonic_s(self) -> float:
        return self.true_ms / 1000

    def wait(self, ms: int) -> None:
        self.true_ms += ms
        self.set_clock(ms)

    def set_clock(self, ms: int) -> None:
        self.now_ms += ms
        self.observe(self.now_ms)

    def sends(self) -> bool:
        is_overtaken = self.silent_until > self.now_ms + PAUSE_MS
        end_ms = 0 if is_overtaken else self.silent_until
        if self.true_end(end_ms - PAUSE_MS, end_ms) > self.now_ms:
            return False
        self.silent_until = self.now_ms + PAUSE_MS
        if not is_overtaken:
            assert self.true_ms - self.last_ms >= PAUSE_MS, "a pause was broken"
            self.last_ms = self.true_ms
        return not is_overtaken


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.tuples(
                st.just(PacedPhone.set_clock),
                st.sampled_from([-1_000, -10 * MINUTE_MS, -HOUR_MS, 10 * MINUTE_MS, HOUR_MS]),
            ),
            st.tuples(st.just(PacedPhone.wait), st.sampled_from([1, PAUSE_MS - 1, PAUSE_MS, 20 * MINUTE_MS])),
        ),
        max_size=40,
    )
)
@tries(max_examples=500, deadline=None)
def test_no_order_of_clock_steps_breaks_a_pause_or_silences_a_phone_for_longer_than_one(
    steps: list[tuple[Callable[[PacedPhone, int], None], int] | None],
) -> None:
    phone = PacedPhone()
    for step in steps:
        if step is None:
            phone.sends()
        else:
            act, ms = step
            act(phone, ms)
    waited_ms = 0
    while not phone.sends():
        phone.wait(500)
        waited_ms += 500
        assert waited_ms <= PAUSE_MS, "silent for longer than its pause"
