"""The primary Redis dies in the middle of accepted messages: every 202 arrives, and nobody reads anything twice.

`SENTINEL=full` accepts 2,000 messages over 20 workers; otherwise the same in small.
"""

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
import pytest

from tests import redis_server
from tests.e2e.product import Product, home_of_its_own
from tests.redis_group import RedisGroup
from tests.waiting import until

WORKERS, EACH = (20, 100) if os.environ.get("SENTINEL") == "full" else (3, 12)
HAD = {"sent", "delivered", "read"}


@dataclass
class ReplicatedProduct(Product):
    """The product on a primary with two replicas, of which one must have every write."""

    group: RedisGroup = field(init=False)

    def _redis(self) -> None:
        """Start the group in place of the one Redis; the services find it through its Sentinels."""
        self.group = RedisGroup(self.home, replicas=2, options=redis_server.DURABLE)
        self.group.start()
        self.settings |= {"REDIS_URL": self.group.url, "REDIS_REPLICAS_ACK": "1"}

    def _end(self) -> None:
        super()._end()
        self.group.end()


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_every_message_that_was_accepted_arrives_once_although_the_primary_redis_dies() -> None:
    settings = {"TIME_SCALE": "20", "COLD_PER_DAY": "5000", "COLD_PER_MINUTE": "60", "COLD_HOURS": "00:00-00:00"}
    settings |= {"RATE_LIMIT_PER_MINUTE": "600000", "PING_TIMEOUT_MS": "400000"}
    phones = {f"w{n}": f"9725011{n:05d}" for n in range(WORKERS)}
    with home_of_its_own() as home:
        async with ReplicatedProduct(home, -(-WORKERS // 4) + 1, settings) as running:
            for session, phone in phones.items():  # one after the other: each has its own time on a busy machine
                await running.link(session, phone)
            accepted: dict[str, str] = {}
            is_half = asyncio.Event()
            sending = asyncio.gather(*(_send(running, session, accepted, is_half) for session in phones))
            async with asyncio.timeout(600):
                await is_half.wait()
            running.group.signal(0, signal.SIGKILL)
            before = len(accepted)
            await sending
            running.group.servers[0].process.wait()
            running.group.start_server(0)  # comes back as what the Sentinels make of it
            statuses = await until(lambda: _statuses(running, accepted), "every message has ended", 1200)
            arrived = [each for each in await running.arrivals() if each["text"] in accepted]
    assert before < len(accepted) == WORKERS * EACH, "void: everything was accepted before the primary died"
    assert set(statuses.values()) <= HAD, Counter(statuses.values())
    shown = {(each["text"], each["id"]) for each in arrived}
    assert Counter(text for text, _ in shown) == Counter(list(accepted)), "lost, or shown twice"


async def _send(running: Product, session: str, accepted: dict[str, str], is_half: asyncio.Event) -> None:
    """Post each message with its own key until it is accepted, as a client does that was told to try again.

    Whoever makes half of them full says so at once: a fast machine accepts the other half between two looks.
    """
    for number in range(EACH):
        text = f"{session} says {number}"
        body = {"to": f"9725222{number % 3:05d}", "message": text, "sessionId": session}

        async def told(text: str = text, body: dict[str, str] = body) -> str | None:
            with suppress(httpx.HTTPError):
                answer = await running.door.post("/api/v1/send", json=body, headers={"Idempotency-Key": text})
                if answer.status_code == httpx.codes.ACCEPTED:
                    return str(answer.json()["messageId"])
                assert answer.status_code in (429, 500, 503), answer.text
            return None

        accepted[text] = str(await until(told, f"{text!r} is accepted", 300))
        if len(accepted) >= WORKERS * EACH // 2:
            is_half.set()


async def _statuses(running: Product, accepted: dict[str, str]) -> dict[str, str] | None:
    """Return how every message ended, or None while one has not."""
    found = {}
    for text, message in accepted.items():
        with suppress(httpx.HTTPError):
            answer = await running.door.get(f"/api/v1/messages/{message}")
            if answer.is_success:
                found[text] = str(answer.json()["status"])
        if found.get(text) in (None, "queued", "scheduled", "sending"):
            return None
    return found
