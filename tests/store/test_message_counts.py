"""Counts by day of all sessions together."""

from tests.conftest import Clock
from tests.store.scene import DAY_MS, PHONE, Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import message_counts, queues
from wa_orchestrator.store.messages.message_keys import counted_in

DAY = "20250615"
HOUR_MS = 3_600_000


async def _of_all(scripts: Scripts, clock: Clock, *days: str) -> list[dict[str, int]]:
    """Return the counts of all sessions on these days, without the zeros."""
    found = await message_counts.of_all(scripts, days or [DAY], now_ms=clock.now_ms)
    return [{name: count for name, count in of_all.items() if count} for of_all, _ in found]


async def _commands(scripts: Scripts, clock: Clock) -> int:
    """Return how many commands a look at the counts of a day takes."""
    before = await scripts.redis.info("commandstats")
    await _of_all(scripts, clock)
    after = await scripts.redis.info("commandstats")
    first, last = (sum(int(each["calls"]) for each in stats.values()) for stats in (before, after))
    return last - first


async def test_every_way_in_which_a_message_ends_is_in_the_counts_of_all_sessions(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected()
    await scene.ack(await scene.sending("1"), "read")
    await clock.pass_ms(60_000)
    await scene.nack(await scene.sending("2"), backoff_ms=None)
    await clock.pass_ms(60_000)
    lost = await scene.sending("3")
    await clock.pass_ms(61_000)
    await scene.reclaim(lost, most_crashes=1)
    await clock.pass_ms(60_000)
    await scene.sending("4")
    await scene.register(most_crashes=1)
    nobodys = await scene.queued("5")
    await queues.fail(held, scene.places[nobodys], reason="NO_SENDER", counted=counted_in("", DAY))
    assert await _of_all(held, clock) == [{"sent": 1, "read": 1, "failed": 2, "unknown": 2}]
    assert (await message_counts.of_all(held, [DAY], now_ms=clock.now_ms))[0][1]["failed"] == 1
    await held.redis.hdel(keys.day_stats(DAY), "summed_at")  # the sessions' own counts say the same
    assert await _of_all(held, clock) == [{"sent": 1, "read": 1, "failed": 2, "unknown": 2}]


async def test_the_counts_of_all_sessions_cost_the_same_with_however_many_sessions(held: Scripts, clock: Clock) -> None:
    costs = []
    for sessions in (3, 300):
        for number in range(sessions):
            await held.redis.sadd(keys.SESSIONS_ALL, f"w{number}")
            await held.redis.hset(keys.stats(f"w{number}", DAY), "sent", 1)
        await clock.pass_ms(2 * HOUR_MS)
        assert await _of_all(held, clock) == [{"sent": sessions}]
        costs.append(await _commands(held, clock))
    assert costs[0] == costs[1]


async def test_what_an_earlier_version_counted_beside_us_is_added_within_an_hour(held: Scripts, clock: Clock) -> None:
    await held.redis.sadd(keys.SESSIONS_ALL, "w1")
    await held.redis.hset(keys.stats("w1", DAY), "sent", 5)
    assert await _of_all(held, clock) == [{"sent": 5}]
    await held.redis.hincrby(keys.stats("w1", DAY), "sent", 2)
    await clock.pass_ms(HOUR_MS + 1)
    assert await _of_all(held, clock) == [{"sent": 7}]


async def test_a_day_is_compared_once_more_when_it_has_ended_everywhere(held: Scripts, clock: Clock) -> None:
    await held.redis.sadd(keys.SESSIONS_ALL, "w1")
    await clock.set(clock.now_ms // DAY_MS * DAY_MS + DAY_MS)  # in the zones west of UTC it has not
    assert await _of_all(held, clock, DAY) == [{}]
    await held.redis.hset(keys.stats("w1", DAY), "sent", 1)
    await clock.pass_ms(13 * HOUR_MS)
    assert await _of_all(held, clock, DAY) == [{"sent": 1}]
    await clock.pass_ms(DAY_MS)
    first = await held.redis.hget(keys.day_stats(DAY), "summed_at")
    await _of_all(held, clock, DAY)
    assert await held.redis.hget(keys.day_stats(DAY), "summed_at") == first


async def test_the_messages_of_a_removed_session_stay_counted(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected()
    await scene.ack(await scene.sending())
    await held.redis.srem(keys.SESSIONS_ALL, "w1")
    await clock.pass_ms(2 * HOUR_MS)
    assert await _of_all(held, clock) == [{"sent": 1}]


async def test_counts_of_a_day_are_kept_for_400_days(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected(phone=PHONE)
    await scene.ack(await scene.sending(), "delivered")
    for key in counted_in("w1", DAY):
        assert await held.redis.ttl(key) > 399 * 86_400
