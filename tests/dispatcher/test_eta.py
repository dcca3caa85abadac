"""Etas against reality: the eta at acceptance, and when the message left."""

import random
from functools import partial
from typing import Any

from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, Scenario, settings, settle
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.messages.queue_forecast import facts_of, forecast_of, message_eta
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts

HOUR_MS = 3_600_000


async def accept_with_eta(scenario: Scenario, session: str, phone: str, to: str) -> tuple[str, int]:
    """Accept a message; its id, and when it is said to leave."""
    known = await records.session(scenario.scripts, session)
    assert known is not None
    forecast = forecast_of(scenario.settings, known, await facts_of(scenario.scripts, known))
    waiting = await scenario.scripts.redis.zcard(keys.queue(phone))
    eta = forecast.eta(waiting + forecast.in_flight)
    message = await scenario.accept(session, phone, to=to)
    assert eta.at_ms is not None
    return message, eta.at_ms


async def test_nine_of_ten_messages_leave_at_their_eta(held: Scripts, clock: Clock) -> None:
    await clock.set(NOON + 7 * HOUR_MS)  # 19:00: the evening's end and a full day both come in between
    scenario = Scenario(held, settings())
    rng = random.Random(3)
    fleet = {"w1": "972500000001", "w2": "972500000002", "w3": "972500000003"}
    born = {"w1": NOON, "w2": NOON - 5 * 24 * HOUR_MS, "w3": NOON - 30 * 24 * HOUR_MS}
    for session, phone in fleet.items():
        await scenario.connect(session, phone, first_connected_at=born[session])
        await held.redis.hset(keys.pace(phone), "service_ms", 300)  # as measured on earlier days
    dispatcher = scenario.dispatcher()
    dispatcher.releaser._jitter = rng.random
    etas: dict[str, tuple[int, int]] = {}
    left: dict[str, int] = {}
    acks: list[tuple[int, str]] = []
    # A hot phone with a long queue, a warm one with one beyond its hours, a cold one with more than its day.
    for session, count in (("w1", 14), ("w2", 40), ("w3", 60)):
        for n in range(count):
            message, at_ms = await accept_with_eta(scenario, session, fleet[session], f"97251{n:06d}")
            etas[message] = (clock.now_ms, at_ms)
            await dispatcher.router.step()
    while len(left) < len(etas):
        await settle(dispatcher)
        for session, phone in fleet.items():
            claimed = await scenario.claim(session, phone)
            if claimed is not None:
                left[claimed] = clock.now_ms
                acks.append((clock.now_ms + rng.randrange(100, 500), claimed))
        acks.sort()
        due: Any = await held.redis.zrange(keys.DUE, 0, 0, withscores=True)
        await clock.set(max(clock.now_ms, min([int(at) for _, at in due] + [at for at, _ in acks[:1]])))
        while acks and acks[0][0] <= clock.now_ms:
            await scenario.ack(acks.pop(0)[1])
    honest = [abs(left[name] - eta) <= max(10_000, 0.1 * (eta - asked)) for name, (asked, eta) in etas.items()]
    assert len(honest) == 114
    assert sum(honest) >= 0.9 * len(honest)


async def test_etas_are_exact_in_the_last_minutes_of_the_hours_and_in_a_burst(held: Scripts, clock: Clock) -> None:
    await clock.set(NOON + 9 * HOUR_MS - 90_000)  # a cold session closes at 21:00
    scenario = Scenario(held, settings())
    await scenario.connect("w1", "972500000001")
    await held.redis.hset(keys.pace("972500000001"), mapping={"service_ms": 300, "burst_until": clock.now_ms + 20_000})
    dispatcher = scenario.dispatcher(jitter=0.5)
    etas = {}
    for _ in range(6):
        message, at_ms = await accept_with_eta(scenario, "w1", "972500000001", "97251000001")
        etas[message] = at_ms
        await dispatcher.router.step()
    left: dict[str, int] = {}
    while len(left) < len(etas):
        await settle(dispatcher)
        claimed = await scenario.claim("w1", "972500000001")
        if claimed is not None:
            left[claimed] = clock.now_ms
            await clock.pass_ms(300)
            await scenario.ack(claimed)
        else:
            next_due: Any = await held.redis.zrange(keys.DUE, 0, 0, withscores=True)
            await clock.set(max(clock.now_ms + 1, int(next_due[0][1])))
    assert left == etas
    assert len([at for at in left.values() if at < NOON + 9 * HOUR_MS]) == 3  # two long pauses fit in before 20:59


async def _why(scenario: Scenario, message: str) -> tuple[WaitReason, int | None]:
    held = scenario.scripts
    session, found = await records.session(held, "w1"), await records.message(held, message)
    assert session is not None
    assert found is not None
    facts = await facts_of(held, session)
    forecast = forecast_of(scenario.settings, session, facts)
    eta = await message_eta(held, forecast, found, new_contacts=facts.phone.new_contacts, now_ms=facts.now_ms)
    assert eta is not None
    return eta.because, eta.at_ms


async def test_only_messages_to_new_contacts_are_said_to_wait_for_the_limit_on_those(
    held: Scripts, clock: Clock
) -> None:
    await clock.set(NOON)
    scenario = Scenario(held, settings())
    await scenario.connect("w1", "972500000001")
    await held.redis.hset(keys.pace("972500000001"), "lock_until", NOON + 60_000)
    await held.redis.sadd(keys.contacts("972500000001"), "lid:77001")
    await contacts.set_names(held, "97251000001", "77001")
    people = ("97251000002", "97251000001", "lid:77001", "120363000000000001@g.us")
    reasons = [(await _why(scenario, await scenario.accept("w1", "972500000001", to=to)))[0] for to in people]
    assert [reason is WaitReason.REACHOUT_LOCKED for reason in reasons] == [True, False, False, False]


async def test_a_waiting_message_says_what_it_waits_for(held: Scripts, clock: Clock) -> None:
    await clock.set(NOON)
    scenario = Scenario(held, settings())
    await scenario.connect("w1", "972500000001")
    first, second = [await scenario.accept("w1", "972500000001") for _ in range(2)]
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)

    why = partial(_why, scenario)
    assert (await why(second))[0] is WaitReason.IN_FLIGHT
    await scenario.send("w1", "972500000001")
    assert await why(second) == (WaitReason.PAUSE, NOON + 6_500)
    await held.redis.hset(keys.HOLDS, "all", '{"until_ms": 9000000000000000, "why": "", "by": ""}')
    assert await why(second) == (WaitReason.HELD, None)
    await held.redis.hdel(keys.HOLDS, "all")
    await scenario.put("w1", "disconnected", "RECONNECTING")
    assert await why(second) == (WaitReason.SESSION_OFFLINE, None)
    assert first != second
