"""When a message leaves: routing, pauses, holds, schedules, locks, expiry and reclaimed leases."""

import asyncio
import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import DAY_MS, NOON, Scenario, settle
from wa_orchestrator.dispatcher import due_phones
from wa_orchestrator.domain.messages import retry
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.messages import admission, contacts, outbox
from wa_orchestrator.store.messages.message_keys import Place

A, B = "972500000001", "972500000002"


async def test_a_message_to_a_connected_session_is_released_at_once(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w1", A) == message


async def test_the_next_message_leaves_when_the_drawn_pause_is_over_and_not_before(
    scenario: Scenario, clock: Clock
) -> None:
    await scenario.connect("w1", A)
    first, second = await scenario.accept("w1", A), await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher(jitter=0.5)
    await settle(dispatcher)
    assert await scenario.send("w1", A) == first
    await clock.pass_ms(6_499)  # a cold session: 5 s and half of 3 s
    await settle(dispatcher)
    assert await scenario.claim("w1", A) is None
    await clock.pass_ms(1)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == second


async def test_a_connected_sibling_sends_for_a_session_that_is_away(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", A)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", A) == message


async def test_a_message_pinned_to_a_session_waits_for_that_session(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", A)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    message = await scenario.accept("w1", A, fields={"pinned": "session"})
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.claim("w2", A) is None
    await scenario.put("w1", "connected")
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == message


async def test_a_job_that_is_no_message_is_kept_for_people_and_holds_up_nobody(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    strange = '{"phone": "972500000001", "text": "the old shape"}'
    await scenario.scripts.redis.lpush(keys.GATEWAY_JOBS, strange)
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w1", A) == message
    assert await scenario.scripts.redis.lrange(keys.STRANGE_JOBS, 0, -1) == [strange]
    assert await scenario.scripts.redis.llen(keys.GATEWAY_JOBS) == 0


async def test_another_phone_takes_a_message_whose_session_has_given_up(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", B)
    await scenario.put("w1", "failed", "BANNED")
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", B) == message
    assert await scenario.scripts.redis.hget(keys.message(message), "phone") == B
    assert await scenario.scripts.redis.hgetall(keys.GATEWAY_WAITING) == {}


async def test_a_message_pinned_to_a_phone_is_not_given_to_another_phone(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", B)
    await scenario.put("w1", "failed", "BANNED")
    message = await scenario.accept("w1", A, fields={"pinned": "phone"})
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", B) is None
    assert await scenario.status(message) == "queued"


async def test_a_message_without_any_sender_fails_and_says_so_and_counts_once_among_the_failed_of_the_day(
    scenario: Scenario,
) -> None:
    message = await scenario.accept("nobody", A)
    await asyncio.gather(scenario.dispatcher().router.step(), scenario.dispatcher().router.step())
    await settle(scenario.dispatcher())
    assert (await scenario.status(message), await scenario.reason(message)) == ("failed", "NO_SENDER")
    assert await scenario.scripts.redis.hgetall(keys.day_stats("20250615")) == {"failed": "1", "all:failed": "1"}


async def test_a_message_that_waits_for_a_deleted_session_goes_to_another(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", B)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    message = await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    await sessions.remove(scenario.scripts, "w1", proxy="p_w1", phone=A)
    await scenario.scripts.redis.zadd(keys.DUE, {A: 0})
    await settle(dispatcher)
    assert await scenario.claim("w2", B) == message


async def test_a_job_that_turns_out_to_have_arrived_leaves_the_list_and_is_not_sent(scenario: Scenario) -> None:
    await scenario.connect("w2", B)
    message = await scenario.accept("gone", A)
    await scenario.ack(message)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", B) is None
    assert await scenario.scripts.redis.llen(keys.GATEWAY_JOBS) == 0
    assert await scenario.status(message) == "sent"


async def test_a_scheduled_message_waits_for_its_time(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A)
    message = await scenario.accept("w1", A, due_ms=NOON + 60_000)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.claim("w1", A) is None
    await clock.pass_ms(60_000)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == message


async def test_a_message_that_was_deferred_yesterday_is_read_before_one_that_was_accepted_this_morning(
    scenario: Scenario, clock: Clock
) -> None:
    await scenario.connect("w1", A)
    opens_ms = NOON + 21 * 3_600_000  # a cold session begins at nine
    full = admission.Room(10**6, 0, 0, opens_ms)
    yesterday = admission.NewMessage(f"m_{77:018x}", f"3EB0{77:018X}", A, "w1", "97251000001")
    assert isinstance(await admission.accept(scenario.scripts, yesterday, full), admission.Accepted)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    await clock.set(opens_ms - 3_600_000)
    this_morning = await scenario.accept("w1", A)
    await settle(dispatcher)
    await clock.set(opens_ms - 1)
    await settle(dispatcher)
    sent: list[str] = []
    while len(sent) < 2:
        await clock.pass_ms(1)
        await dispatcher.releaser.step()  # it does not wait for the next sweep
        if message := await scenario.send("w1", A):
            sent.append(message)
            await clock.pass_ms(10_000)
            await settle(dispatcher)
    assert sent == [yesterday.id, this_morning]


async def test_a_message_expires_in_the_queue(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    message = await scenario.accept("w1", A, expires_ms=NOON + 60_000)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    await clock.pass_ms(60_000)
    await settle(dispatcher)
    assert await scenario.status(message) == "expired"


async def test_a_message_that_kills_its_workers_is_counted_as_failed_on_its_day(
    scenario: Scenario, clock: Clock
) -> None:
    await clock.set(NOON + DAY_MS // 2 - 1)  # the next day already, where the session is
    await scenario.connect("w1", A, timezone="Asia/Tokyo", limits='{"opens": "00:00", "closes": "00:00"}')
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w1", A) == message
    await scenario.scripts.redis.hset(keys.message(message), "crashes", retry.MOST_CRASHES - 1)
    await clock.pass_ms(120_000)
    await scenario.dispatcher().sweeper.step()
    assert await scenario.status(message) == "unknown"
    day = f"{datetime.fromtimestamp(clock.now_ms / 1000, ZoneInfo('Asia/Tokyo')):%Y%m%d}"
    assert await scenario.scripts.redis.hget(keys.stats("w1", day), "unknown") == "1"


async def test_a_message_that_a_worker_holds_does_not_expire(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A)
    message = await scenario.accept("w1", A, expires_ms=NOON + 60_000)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    await scenario.claim("w1", A)
    await clock.pass_ms(60_000)
    await settle(dispatcher)
    assert await scenario.status(message) == "sending"
    await scenario.ack(message)
    assert await scenario.status(message) == "sent"


async def test_a_hold_keeps_a_group_silent_until_it_ends(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A, label="haifa")
    await scenario.connect("w2", B, label="eilat")
    hold = {"until_ms": NOON + 60_000, "why": "holiday", "by": "test"}
    await scenario.scripts.redis.hset(keys.HOLDS, "group:haifa", json.dumps(hold))
    held, free = await scenario.accept("w1", A), await scenario.accept("w2", B)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.claim("w2", B) == free
    assert await scenario.claim("w1", A) is None
    await clock.pass_ms(60_000)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == held


async def hold(scenario: Scenario, field: str, until_ms: int) -> None:
    value = {"until_ms": until_ms, "why": "", "by": "test"}
    await scenario.scripts.redis.hset(keys.HOLDS, field, json.dumps(value))


async def test_a_sibling_sends_for_a_session_on_hold(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", A)
    await hold(scenario, "session:w1", NOON + 60_000)
    free, pinned = [await scenario.accept("w1", A, fields={"pinned": pin}) for pin in ("", "session")]
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", A) == free
    assert await scenario.status(pinned) == "queued"


async def test_a_message_leaves_when_the_hold_on_its_only_connected_sibling_ends(
    scenario: Scenario, clock: Clock
) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", A)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    await hold(scenario, "session:w2", NOON + 60_000)
    message = await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.status(message) == "queued"
    await clock.pass_ms(60_000)
    await settle(dispatcher)
    assert await scenario.claim("w2", A) == message


async def test_a_burst_is_detected_although_it_is_routed_late_and_with_younger_messages(
    scenario: Scenario, clock: Clock
) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", B)
    for _ in range(16):
        await scenario.accept("w1", A)
    await clock.pass_ms(120_000)
    await scenario.accept("w2", B)
    await settle(scenario.dispatcher())
    assert [event["session"] for event in await scenario.events("session.burst")] == ["w1"]


async def test_pauses_double_after_a_burst_and_one_event_is_emitted(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A)
    for _ in range(16):  # cold: 5 a minute, so 16 are more than three times as many
        await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher(jitter=0.0)
    await settle(dispatcher)
    await scenario.send("w1", A)
    await scenario.accept("w1", A)
    await settle(dispatcher)
    assert len(await scenario.events("session.burst")) == 1
    # The first was released before or after the mark; the second certainly after it.
    await clock.pass_ms(10_000)
    await settle(dispatcher)
    second = await scenario.send("w1", A)
    assert second is not None
    assert await scenario.scripts.redis.hget(keys.message(second), "pause_ms") == "10000"


async def test_fifteen_messages_in_a_minute_are_no_burst(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    for _ in range(15):
        await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.events("session.burst") == []


@pytest.mark.parametrize("limit", ["lock", "cap"])
async def test_during_a_limit_on_new_contacts_those_wait_and_known_ones_do_not(
    scenario: Scenario, clock: Clock, limit: contacts.NewContactLimit
) -> None:
    await scenario.connect("w1", A)
    await contacts.limit(scenario.scripts, A, limit, session="w1", until_ms=NOON + 3_600_000, source="reported")
    await scenario.scripts.redis.sadd(keys.contacts(A), "97251000009")
    stranger = await scenario.accept("w1", A, to="97251000001")
    friend = await scenario.accept("w1", A, to="97251000009")
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.send("w1", A) == friend
    await clock.pass_ms(3_599_999)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) is None
    await clock.pass_ms(1)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == stranger


async def test_a_lock_without_an_end_is_over_when_whatsapp_says_so(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await contacts.limit(scenario.scripts, A, "lock", session="w1", until_ms=9_000_000_000_000_000, source="reported")
    message = await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.claim("w1", A) is None
    await contacts.limit(scenario.scripts, A, "lock", session="w1", until_ms=0, source="reported")
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == message


@pytest.mark.parametrize(("first", "last"), [("lock", "cap"), ("cap", "lock")])
async def test_new_contacts_wait_for_the_limit_that_ends_last(
    scenario: Scenario, clock: Clock, first: contacts.NewContactLimit, last: contacts.NewContactLimit
) -> None:
    await scenario.connect("w1", A)
    for limit, minutes in ((first, 10), (last, 30)):
        until_ms = NOON + minutes * 60_000
        await contacts.limit(scenario.scripts, A, limit, session="w1", until_ms=until_ms, source="reported")
    stranger, dispatcher = await scenario.accept("w1", A), scenario.dispatcher()
    for minutes, leaves in ((0, None), (10, None), (20, stranger)):
        await clock.pass_ms(minutes * 60_000)
        await settle(dispatcher)
        assert await scenario.claim("w1", A) == leaves


async def test_a_message_that_met_the_cap_waits_aside_even_where_its_recipient_counts_as_known(
    scenario: Scenario, clock: Clock
) -> None:
    await scenario.connect("w1", A)
    message, behind = await scenario.accept("w1", A, to="97251000001"), await scenario.accept("w1", A, to="97251000001")
    await scenario.scripts.redis.sadd(keys.contacts(A), "97251000001")
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == message
    await contacts.limit(scenario.scripts, A, "cap", session="w1", until_ms=NOON + 3_600_000, source="guessed")
    verdict = outbox.FailureVerdict(1, "NEW_CHAT_CAP", 0, place="aside")
    waits = await outbox.nack(scenario.scripts, Place(message, A, "w1"), epoch=1, verdict=verdict, day="20250615")
    assert waits == outbox.Became("queued")
    await clock.pass_ms(60_000)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) is None, "what is behind it does not overtake it"
    await clock.pass_ms(3_600_000)
    await settle(dispatcher)
    assert await scenario.send("w1", A) == message
    await clock.pass_ms(60_000)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == behind


async def test_an_expired_lease_goes_to_the_front_and_the_pause_starts_again(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A)
    first, _second = await scenario.accept("w1", A), await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher(jitter=0.0)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == first
    await clock.pass_ms(120_000)
    await settle(dispatcher)
    assert await scenario.status(first) == "queued"
    await clock.pass_ms(4_999)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) is None
    await clock.pass_ms(1)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == first


async def test_a_message_does_not_wait_for_a_frozen_device_while_its_sibling_asks(
    scenario: Scenario, clock: Clock
) -> None:
    for session in ("w1", "w2"):
        await scenario.connect(session, A)
        assert await scenario.claim(session, A) is None
    await clock.pass_ms(due_phones.SILENT_MS + 1)
    assert await scenario.claim("w2", A) is None
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", A) == message
    await scenario.ack(message)
    named = await scenario.accept("w1", A, fields={"pinned": "session"})
    await clock.pass_ms(60_000)
    await settle(scenario.dispatcher())
    assert (await scenario.claim("w2", A), await scenario.claim("w1", A)) == (None, named)


async def test_a_device_that_asked_before_the_clock_was_set_back_is_not_taken_for_one_that_asks(
    scenario: Scenario, clock: Clock
) -> None:
    for session in ("w1", "w2"):
        await scenario.connect(session, A)
        assert await scenario.claim(session, A) is None
    await clock.pass_ms(-3_600_000)
    assert await scenario.claim("w2", A) is None
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", A) == message


async def test_a_device_keeps_its_message_while_it_asks_and_while_no_sibling_does(
    scenario: Scenario, clock: Clock
) -> None:
    for session in ("w1", "w2"):
        await scenario.connect(session, A)
    first = await scenario.accept("w2", A)
    await settle(scenario.dispatcher())  # nobody has asked yet
    assert await scenario.claim("w2", A) == first
    await scenario.ack(first)
    second = await scenario.accept("w2", A)
    await clock.pass_ms(60_000)
    for session in ("w1", "w2"):
        await scenario.claim(session, A)
    await clock.pass_ms(due_phones.SILENT_MS)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", A) == second


async def test_a_released_message_that_nobody_claims_is_given_to_a_sibling(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", A)
    message = await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    await scenario.put("w1", "disconnected", "WORKER_SILENT")
    await clock.pass_ms(30_000)
    await settle(dispatcher)
    assert await scenario.claim("w2", A) == message


async def test_a_recipient_who_opted_out_after_the_acceptance_gets_no_message(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    message = await scenario.accept("w1", A, to="97251000001")
    await contacts.opt_out(scenario.scripts, "97251000001", word="STOP", via="reply")
    await settle(scenario.dispatcher())
    assert (await scenario.status(message), await scenario.reason(message)) == ("cancelled", "OPTED_OUT")


async def test_two_dispatchers_release_each_message_once(scenario: Scenario, clock: Clock) -> None:
    phones = [f"9725000001{n:02d}" for n in range(20)]
    for n, phone in enumerate(phones):
        await scenario.connect(f"w{n}", phone)
        for _ in range(3):
            await scenario.accept(f"w{n}", phone)
    one, other = scenario.dispatcher(), scenario.dispatcher()
    for _ in range(3):
        for _ in range(4):
            await one.router.step()
            await other.router.step()
            await one.releaser.step()
            await other.releaser.step()
        for n, phone in enumerate(phones):
            assert await scenario.send(f"w{n}", phone) is not None
            assert await scenario.send(f"w{n}", phone) is None
        await clock.pass_ms(60_000)
    counts = await scenario.scripts.redis.hgetall(keys.COUNTS)
    assert (counts["accepted"], counts["sent"], counts["queued"]) == ("60", "60", "0")


async def test_a_bad_record_stops_only_its_own_phone(scenario: Scenario) -> None:
    await scenario.connect("w1", A, timezone="Nowhere/Atlantis")
    await scenario.connect("w2", B)
    await scenario.accept("w1", A)
    message = await scenario.accept("w2", B)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.claim("w2", B) == message


async def test_a_session_in_another_zone_keeps_its_own_hours(scenario: Scenario, clock: Clock) -> None:
    await scenario.connect("w1", A, timezone="Pacific/Auckland")  # 12:00 UTC is midnight there
    message = await scenario.accept("w1", A)
    dispatcher = scenario.dispatcher()
    await settle(dispatcher)
    assert await scenario.claim("w1", A) is None
    await clock.set(NOON + 9 * 3_600_000)
    await settle(dispatcher)
    assert await scenario.claim("w1", A) == message
