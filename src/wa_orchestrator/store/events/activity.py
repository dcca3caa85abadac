"""What the dashboard shows over time: messages per hour, queue lengths, checks of proxies, activity of sessions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain.pacing.backlog import QueueCounts
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_counts, event_stream
from wa_orchestrator.store.messages import phone_queues
from wa_orchestrator.store.messages.message_counts import COUNTED
from wa_orchestrator.store.records import Entry

HOUR_MS: Final = 3_600_000
_CHECKS_S: Final = 7 * 24 * 3600
_SESSION_EVENTS: Final = 600


async def session_histories(scripts: Scripts, sessions: Sequence[str]) -> list[list[Entry]]:
    """Return the history of each of these sessions, oldest first, in one round trip."""
    replies = await scripts.each(
        lambda pipe, key: pipe.xrange(key, count=_SESSION_EVENTS), map(keys.session_events, sessions)
    )
    return [[Entry(cursor, fields) for cursor, fields in entries] for entries in replies]


async def hours(scripts: Scripts) -> dict[str, int]:
    """Return the counts per hour: `<hour>:sent` and `<hour>:failed`, by the hour since 1970."""
    raw: Any = await scripts.redis.hgetall(keys.DASHBOARD_HOURS)
    return {name: int(count) for name, count in raw.items()}


async def count_per_hour(scripts: Scripts, kinds: Collection[str], *, most: int) -> list[Entry]:
    """Count events that were not counted yet, each once, and return them; those of these types by the hour too."""

    def add(pipe: Pipeline, entries: Sequence[Entry]) -> None:
        event_counts.add(pipe, entries)
        for entry in entries:
            kind = entry.fields.get("type", "")
            if kind in kinds:
                hour = int(float(entry.fields["at"])) // HOUR_MS
                pipe.hincrby(keys.DASHBOARD_HOURS, f"{hour}:{kind.removeprefix('message.')}", 1)

    return await event_stream.consume(scripts, keys.DASHBOARD_CURSOR, add, most=most, start="0")


async def remove_hours_before(scripts: Scripts, hour: int) -> None:
    names: Any = await scripts.redis.hkeys(keys.DASHBOARD_HOURS)
    old = [name for name in names if int(name.partition(":")[0]) < hour]
    if old:
        await scripts.redis.hdel(keys.DASHBOARD_HOURS, *old)


async def queue_lengths(scripts: Scripts) -> list[tuple[int, int]]:
    """Return how many messages waited at which instants (ms), oldest first."""
    lines: Any = await scripts.redis.lrange(keys.DASHBOARD_QUEUE, 0, -1)
    return [_numbers(line) for line in lines]


async def add_queue_length(scripts: Scripts, *, interval_ms: int, most: int) -> None:
    """Add how many messages wait now, unless the last entry is younger than `interval_ms`; keep the last `most`."""
    now_ms = await scripts.now_ms()
    last: Any = await scripts.redis.lindex(keys.DASHBOARD_QUEUE, -1)
    if last and now_ms - _numbers(last)[0] < interval_ms:
        return
    waiting: Any = await scripts.redis.hget(keys.COUNTS, "queued")
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.DASHBOARD_QUEUE, f"{now_ms}:{int(waiting or 0)}")
        pipe.ltrim(keys.DASHBOARD_QUEUE, -most, -1)
        await pipe.execute()


async def proxy_checks(scripts: Scripts, proxies: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Return the last checks of each of these proxies, oldest first: when, and the latency (-1 = failed)."""
    replies = await scripts.each(lambda pipe, key: pipe.lrange(key, 0, -1), map(keys.proxy_health, proxies))
    return [[_numbers(line) for line in lines] for lines in replies]


def _numbers(line: str) -> tuple[int, int]:
    """Return the two numbers of `<ms>:<number>`."""
    at_ms, _, number = line.partition(":")
    return int(at_ms), int(number)


async def add_proxy_checks(scripts: Scripts, checks: Mapping[str, tuple[int, int]], *, most: int) -> None:
    """Add the last check of each of these proxies, unless it is known; keep the last `most` of each."""
    known = await scripts.each(lambda pipe, key: pipe.lindex(key, -1), map(keys.proxy_health, checks))
    pipe = scripts.redis.pipeline(transaction=False)
    for (proxy_id, (checked_at, latency_ms)), last in zip(checks.items(), known, strict=True):
        if last and _numbers(last)[0] == checked_at:
            continue
        key = keys.proxy_health(proxy_id)
        pipe.rpush(key, f"{checked_at}:{latency_ms}")
        pipe.ltrim(key, -most, -1)
        pipe.expire(key, _CHECKS_S)
    await pipe.execute()


@dataclass(frozen=True, slots=True)
class Span:
    """A session and its phone, with its day, the start of its minute, and the day's name (`20250131`)."""

    session: str
    phone: str
    day_ms: tuple[int, int]
    minute_start_ms: int
    day: str


@dataclass(frozen=True, slots=True)
class SessionActivity:
    """What a session's phone sent and has waiting, and the counts of the session's day."""

    waiting: QueueCounts
    sent_in_minute: int
    burst_until: int
    lock_until: int
    """Until when WhatsApp's reach-out lock does not let the phone write to new contacts."""
    cap_until: int
    """Until when WhatsApp does not let it because the allowance of new chats is used up."""
    slowdowns: int
    """How often in a row WhatsApp has asked the phone to send less."""
    counts: Mapping[str, int]


async def of_sessions(scripts: Scripts, spans: Sequence[Span]) -> list[SessionActivity]:
    """Return the activity of these sessions, in one round trip. A session without a phone has sent nothing."""
    pipe = scripts.redis.pipeline(transaction=False)
    for span in spans:
        pipe.zcount(keys.sent(span.phone), span.minute_start_ms, "+inf")
        pipe.hmget(keys.pace(span.phone), "burst_until", "lock_until", "cap_until", "slowdowns")
        pipe.hmget(keys.stats(span.session, span.day), COUNTED)
        phone_queues.add_counts(pipe, span.phone, span.day_ms)
    replies: list[Any] = await pipe.execute() if spans else []
    each = 3 + phone_queues.COUNTS
    return [_activity(span, replies[each * at : each * (at + 1)]) for at, span in enumerate(spans)]


def _activity(span: Span, replies: Sequence[Any]) -> SessionActivity:
    minute, pace, counts, *waiting = replies
    by_name = {name: int(count or 0) for name, count in zip(COUNTED, counts, strict=True)}
    burst_until, lock_until, cap_until, slowdowns = (int(float(each or 0)) for each in pace)
    if not span.phone:
        return SessionActivity(QueueCounts(), 0, burst_until, lock_until, cap_until, slowdowns, by_name)
    queued = phone_queues.read_counts(waiting)
    return SessionActivity(queued, int(minute), burst_until, lock_until, cap_until, slowdowns, by_name)
