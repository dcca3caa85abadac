"""What was accepted is never lost and never sent twice, while every part of the product is killed at random.

Judged by three ledgers that the product does not write: what clients were told, what WhatsApp saw, and what the API says
afterwards. `LEDGER=full` runs 2,000 messages over 20 workers, `LEDGER=chaos` 10,000 over 50 with 1,000 kills; otherwise the
same in small. `CHAOS_SEED` makes other choices. Messages are posted as kills go on, so that neither ends before the other.
"""

import asyncio
import itertools
import os
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.chaos import Record
from tests.e2e.product import Product, product
from tests.waiting import until
from wa_orchestrator.domain.messages.retry import MOST_CRASHES
from wa_orchestrator.store import keys

SCALE = 20
PAUSE_MIN_MS = 5000 / SCALE
PER_MINUTE = 60
LINKED_AT_ONCE = 6
#: Longer than a busy machine takes to see what has arrived and to kill its worker; shorter than a worker waits for an ack.
ACK_DELAY_S = 1.0
PER_PROXY = 4
#: So much of all messages is posted at once; the rest follows the kills.
AT_ONCE = 0.2
FINAL = {"sent", "delivered", "read", "failed", "unknown", "expired", "cancelled"}
HAD = {"sent", "delivered", "read"}


@dataclass(frozen=True)
class Size:
    """How large a run is, and how much must have gone wrong for it to prove anything."""

    workers: int
    messages: int
    kills: int
    least_repeats: int
    least_taken_back: int


SIZES = {
    "": Size(6, 150, 24, 2, 3),
    "medium": Size(10, 1000, 100, 5, 5),
    "full": Size(20, 2000, 150, 10, 10),
    "chaos": Size(50, 10_000, 1000, 50, 50),
}
SIZE = SIZES[os.environ.get("LEDGER", "")]


@dataclass
class Ledger:
    """What the client was told."""

    message_of: dict[str, str] = field(default_factory=dict)
    text_of: dict[str, str] = field(default_factory=dict)
    to_of: dict[str, str] = field(default_factory=dict)
    order: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(int(SIZE.messages * AT_ONCE)))
    """How many more messages may be posted now."""


@dataclass
class Arrivals:
    """WhatsApp's own ledger, read on from where it was read last: it becomes long."""

    running: Product
    seen: int = 0
    first: int = 0
    """How many of them were no repeats."""

    async def new(self) -> list[dict[str, Any]]:
        """Return what has arrived since the last look."""
        found = await self.running.arrivals(after=self.seen)
        self.seen += len(found)
        self.first += sum(1 for each in found if not each["repeat"])
        return found


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600 if SIZE.messages > 2000 else 1500)
async def test_nothing_is_lost_nothing_is_sent_twice_whatever_dies(record_property: Record) -> None:
    dice = random.Random(int(os.environ.get("CHAOS_SEED", "20260615")))  # the same choices every time
    settings = {
        "TIME_SCALE": str(SCALE),
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": str(PER_MINUTE),
        "COLD_HOURS": "00:00-00:00",
        "RATE_LIMIT_PER_MINUTE": "600000",
        "PING_TIMEOUT_MS": "400000",
        # Half a minute for an ack: three late ones of a busy machine would make an outcome unknown, and rightly.
        "ACK_TIMEOUT_MS": str(30_000 * SCALE),
        "LEASE_MS": str(35_000 * SCALE),
    }
    async with product(proxies=-(-SIZE.workers // 4) + 1, **settings) as running:
        phones = {f"w{n}": f"9725011{n:05d}" for n in range(SIZE.workers)}
        for few in batches(list(phones.items())):
            await asyncio.gather(*(running.link(session, phone) for session, phone in few))
        # The moment between WhatsApp having a message and us knowing it is made long enough to be hit.
        # Receipts would tell a restarted worker what has arrived; without them it has to send again, by the same id.
        for fault in ({"kind": "ack_delay", "seconds": ACK_DELAY_S}, {"kind": "no_receipts"}):
            (await running.control.post("/faults", json={"target": "whatsapp", **fault})).raise_for_status()
        ledger = Ledger()
        kills: Counter[str] = Counter()
        operator = asyncio.create_task(start_what_gave_up(running, phones))
        sending = asyncio.create_task(send_all(running, ledger, phones))
        most = await kill_at_random(running, dice, kills, phones, ledger)
        await sending
        ended: dict[str, str] = {}
        await until(lambda: all_ended(running, ledger, ended), "every message has ended", 600 + SIZE.messages / 5)
        operator.cancel()
        arrivals = [
            each for each in await running.arrivals() if each["from"] in phones.values() and each["text"] != "🔄"
        ]
        taken_back = await count_taken_back(running, ledger)
    repeats = sum(1 for each in arrivals if each["repeat"])
    print(
        f"\n{len(ledger.message_of)} accepted, {len(arrivals)} arrivals, {repeats} repeats, {taken_back} taken back, {dict(kills)}"
    )
    record_property("messages", len(ledger.message_of))
    record_property("kills", sum(kills.values()))
    record_property("repeats", repeats)
    record_property("taken_back", taken_back)
    record_property("workers", SIZE.workers)
    assert most <= PER_PROXY, "I8: more sessions on a proxy at once"
    assert repeats >= SIZE.least_repeats, "void: too few resends to prove anything"
    assert taken_back >= SIZE.least_taken_back, "void: too few leases ended to prove anything"
    check(ledger, arrivals, ended, sum(kills.values()))


def batches(phones: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Some phones after the others: a code that waits for fifty starts is no longer valid when it is scanned."""
    for first in range(0, len(phones), LINKED_AT_ONCE):
        yield phones[first : first + LINKED_AT_ONCE]


async def send_all(running: Product, ledger: Ledger, phones: dict[str, str]) -> None:
    """Post every message until it was accepted, each with its own key; the order per sender and recipient is kept."""
    per_session = SIZE.messages // len(phones)

    async def one_sender(session: str) -> None:
        for n in range(per_session):
            to = f"9725222{n % 3:05d}"
            key, text = f"{session}-{n}", f"{session} says {n}"
            await ledger.permits.acquire()
            message = await accepted(running, key, {"to": to, "message": text, "sessionId": session})
            ledger.message_of[key], ledger.text_of[message], ledger.to_of[message] = message, text, to
            ledger.order[session, to].append(message)

    await asyncio.gather(*(one_sender(session) for session in phones))


async def accepted(running: Product, key: str, body: dict[str, str]) -> str:
    """Post until the gateway says 202; anything but "come back later" is an error."""

    async def told() -> str | None:
        with suppress(httpx.HTTPError):
            answer = await running.door.post("/api/v1/send", json=body, headers={"Idempotency-Key": key})
            if answer.status_code == httpx.codes.ACCEPTED:
                return str(answer.json()["messageId"])
            # A session whose worker was killed a moment ago may not be known as usable; everything else is wrong.
            assert answer.status_code in (429, 500, 503), answer.text
        return None

    return str(await until(told, f"{key} is accepted"))


async def kill_at_random(
    running: Product, dice: random.Random, kills: Counter[str], phones: dict[str, str], ledger: Ledger
) -> int:
    """Kill a part every moment; workers most often, and every other one just when WhatsApp has its message.

    Returns the most connections that a proxy was seen to have at once.
    """
    servers = ["gateway", "dispatcher-1", "dispatcher-2", "orchestrator", "redis"]
    arrivals, most, permits = Arrivals(running), 0, 0.0
    for n in itertools.count():
        if kills.total() >= SIZE.kills:
            break
        if n % 10 == 9:
            most = max(most, await most_on_a_proxy(running))
        if n % 100 == 99:
            print(f"\n{kills.total()} kills, {arrivals.seen} arrivals, {len(ledger.message_of)} accepted", flush=True)
        permits += SIZE.messages * (1 - AT_ONCE) / SIZE.kills
        for _ in range(int(permits)):
            ledger.permits.release()
        permits %= 1
        await asyncio.sleep(dice.uniform(0.2, 0.6))
        if n % 4 == 3:
            name = servers[(n // 4) % len(servers)]
            running.parts[name].kill()
            kills[name] += 1
            if name == "redis":
                await until(running.redis_answers, "Redis is back")
            continue
        pids = running.worker_pids()
        chosen = await who_spoke(arrivals, phones, ledger) if n % 2 else dice.choice(sorted(pids) or ["nobody"])
        if chosen in pids and not await is_last_chance(running, phones[chosen]):
            with suppress(ProcessLookupError):
                os.kill(pids[chosen], signal.SIGKILL)
                kills["worker"] += 1
    for _ in range(SIZE.messages):
        ledger.permits.release()
    return most


async def most_on_a_proxy(running: Product) -> int:
    """How many phones the fullest proxy carries right now, by WhatsApp's own list of connections."""
    open_now = (await running.control.get("/connections")).raise_for_status().json()
    return max(Counter(proxy for proxy, _ in {(each["proxy"], each["phone"]) for each in open_now}).values(), default=0)


async def is_last_chance(running: Product, phone: str) -> bool:
    """Whether so many workers have died with the phone's message that it is given up, rightly, if this one dies too."""
    message = await running.redis.hget(keys.pace(phone), "in_flight")
    return int(await running.redis.hget(keys.message(str(message)), "crashes") or 0) >= MOST_CRASHES - 1


async def who_spoke(arrivals: Arrivals, phones: dict[str, str], ledger: Ledger) -> str:
    """The session whose message reaches WhatsApp next: its worker has not heard the acknowledgement yet."""
    await arrivals.new()
    session_of = {phone: session for session, phone in phones.items()}

    async def next_one() -> str | None:
        for each in await arrivals.new():
            if each["from"] in session_of:
                return session_of[each["from"]]
        return "nobody" if arrivals.first >= len(ledger.message_of) else None

    return await until(next_one, "somebody speaks")


async def start_what_gave_up(running: Product, phones: dict[str, str]) -> None:
    """A worker that is killed again and again is given up; a person presses start."""
    for session in itertools.cycle(phones):
        await asyncio.sleep(0.1)
        with suppress(httpx.HTTPError):
            answer = await running.api.get(f"/api/sessions/{session}")
            if answer.is_success and answer.json()["status"] == "failed":
                await running.api.post(f"/api/sessions/{session}/start")


async def all_ended(running: Product, ledger: Ledger, ended: dict[str, str]) -> bool:
    """Whether every accepted message has ended; adds what is recorded of those that have."""
    open_ones = [message for message in ledger.text_of if message not in ended]
    pipe = running.redis.pipeline(transaction=False)
    for message in open_ones:
        pipe.hget(f"message:{message}", "status")
    statuses = zip(open_ones, await pipe.execute(), strict=True)
    ended.update({message: status for message, status in statuses if status in FINAL})
    return len(ended) == len(ledger.text_of)


async def count_taken_back(running: Product, ledger: Ledger) -> int:
    """How often a message came back from a worker that was gone."""
    pipe = running.redis.pipeline(transaction=False)
    for message in ledger.text_of:
        pipe.lrange(f"message:story:{message}", 0, -1)
    stories = await pipe.execute()
    return sum(line.endswith(("LEASE_EXPIRED", "NEW_EPOCH")) for story in stories for line in story)


def check(ledger: Ledger, arrivals: list[dict[str, Any]], ended: dict[str, str], kills: int) -> None:
    """I1 to I6 and I12, from outside."""
    assert len(ended) == len(ledger.message_of) == SIZE.messages // SIZE.workers * SIZE.workers, "I1, I12"
    by_text: dict[str, set[str]] = defaultdict(set)
    for arrival in arrivals:
        by_text[arrival["text"]].add(arrival["id"])
    assert all(len(ids) == 1 for ids in by_text.values()), "I2: a message arrived under two ids"
    assert sum(1 for each in arrivals if each["repeat"]) <= kills, "I2: more repeats than crashes"
    for message, status in ended.items():
        assert (status in HAD) == (ledger.text_of[message] in by_text), f"I4: {message} is {status}"
    assert Counter(ended.values()).total() == sum(status in HAD for status in ended.values()), (
        "nothing had a reason to fail"
    )
    first = list(dict.fromkeys(arrival["text"] for arrival in arrivals))
    place = {text: n for n, text in enumerate(first)}
    for lane in ledger.order.values():
        seen = [place[ledger.text_of[message]] for message in lane]
        assert seen == sorted(seen), "I5: a recipient read them out of order"
    check_pace(arrivals)
    check_exits(arrivals)


def check_pace(arrivals: list[dict[str, Any]]) -> None:
    """I6, as WhatsApp saw it: pauses, and no minute fuller than allowed."""
    lanes: dict[str, list[float]] = defaultdict(list)
    for arrival in arrivals:
        lanes[arrival["from"]].append(_ms(arrival["at"]))
    for lane in lanes.values():
        gaps = [after - before for before, after in itertools.pairwise(lane)]
        assert min(gaps, default=PAUSE_MIN_MS) >= PAUSE_MIN_MS, f"I6: a pause of {min(gaps):.0f} ms"
        minute = 60_000 / SCALE
        assert all(lane[n + PER_MINUTE] - lane[n] >= minute for n in range(len(lane) - PER_MINUTE)), "I6: a full minute"


def check_exits(arrivals: list[dict[str, Any]]) -> None:
    """I8 and I9, as WhatsApp saw it: no proxy fails in this run, so nobody has a reason to leave his own."""
    exits: dict[str, set[str]] = defaultdict(set)
    for arrival in arrivals:
        exits[arrival["from"]].add(arrival["proxy"])
    assert {phone: found for phone, found in exits.items() if len(found) > 1} == {}, "I9: a phone left its exit"
    assert max(Counter(proxy for found in exits.values() for proxy in found).values()) <= PER_PROXY, "I8"


def _ms(at: float) -> float:
    return at * 1000 if at < 1e11 else at
