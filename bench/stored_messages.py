"""Cost of searching and cancelling with a million stored messages, against a thousand.

`python -m bench.stored_messages` fills two durable Redis servers, one with a thousand messages of ninety days and one
with a million, and asks both the same in turns: pages of the API, the messages page of the dashboard, and the
cancellation of a batch. Nothing may take more than twice as long with a million. The messages are written by a script
in bulk; before that, it is compared with what the product's own scripts leave. The result goes to
`bench/results/stored_messages.json`. `MESSAGES=100000` uses fewer, where a million (about 2.5 GB) do not fit.
"""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from redis.asyncio import Redis
from tests.dashboard.serving import API_KEY, PASSWORD, settings

from bench import _results
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.app import install
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.logs import configure
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import FILES, Scripts
from wa_orchestrator.store.messages import admission, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import MessageChanges
from wa_orchestrator.web.app import make_app

FEW = 1_000
MANY = int(os.environ.get("MESSAGES", "1000000"))
MOST_TIMES = 2.0
ROUNDS = 30
SESSIONS = 40
IN_BATCH = 50
PER_CALL = 500
HERE = "http://127.0.0.1:3001"


@dataclass(frozen=True, slots=True)
class Store:
    """A filled Redis with the applications on it."""

    redis: Redis
    scripts: Scripts
    router: Router
    api: httpx.AsyncClient
    pages: httpx.AsyncClient
    messages: int

    @property
    def middle(self) -> int:
        """The number of a message that is neither new nor old."""
        return self.messages // 2


@contextlib.asynccontextmanager
async def open_store(home: Path, messages: int) -> AsyncIterator[Store]:
    """Start a durable Redis with this many messages, a gateway and a dashboard."""
    async with EmbeddedRedis(home) as server, contextlib.AsyncExitStack() as stack:
        redis = LineClient.from_url(server.url, decode_responses=True)
        stack.push_async_callback(redis.aclose)
        chosen = settings(3001, data_dir=home, gateway_hot_path=False, hot_per_day=10**6, rate_limit_per_minute=10**6)
        context = make_context(chosen, redis)
        await fill(redis, messages)
        gateway = Gateway(context)
        dashboard = make_app(context, [])
        install(dashboard, context)
        api = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=gateway.app()), base_url=HERE, headers={"X-API-Key": API_KEY}, timeout=120
        )
        pages = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=dashboard), base_url=HERE, headers={"Origin": HERE}, timeout=120
        )
        await stack.enter_async_context(api)
        await stack.enter_async_context(pages)
        entered = await pages.post("/login", data={"password": PASSWORD, "name": "Dana"})
        assert entered.status_code == 303
        yield Store(redis, context.scripts, Router(context.scripts, chosen), api, pages, messages)


async def fill(redis: Redis, messages: int) -> None:
    """Write sessions and messages; without the disk while it lasts, on it afterwards."""
    storing = bulk_scripts(redis)
    await assert_same_places(redis, storing)
    await redis.config_set("appendonly", "no")
    await add_sessions(redis)
    now_ms = await storing.now_ms()
    for first in range(1, messages + 1, PER_CALL):
        await storing.run("store", [], [first, min(PER_CALL, messages + 1 - first), messages, now_ms])
    await redis.set(keys.STATUSES_INDEXED, 0)
    await redis.config_set("appendonly", "yes")
    while (await redis.info("persistence"))["aof_rewrite_in_progress"]:  # noqa: ASYNC110 (Redis tells nobody)
        await asyncio.sleep(0.2)


def bulk_scripts(redis: Redis) -> Scripts:
    """Return the script that stores in bulk, with the product's own index of statuses in front of it."""
    parts = (FILES["_statuses"], Path(__file__).with_suffix(".lua"))
    text = "\n".join(part.read_text("utf-8") for part in parts)
    return Scripts(redis, sources={"store": text, "now": "return {'now', now_ms()}"})


async def add_sessions(redis: Redis) -> None:
    """Write the records of connected sessions."""
    for n in range(SESSIONS):
        name, phone = f"w{n}", f"97250{n:07d}"
        record: dict[Any, Any] = {
            "id": name, "status": "connected", "phone": phone, "epoch": 1, "version": 1, "first_connected_at": 1,
            "limits": '{"opens": "00:00", "closes": "00:00"}',
        }  # fmt: skip
        await redis.hset(keys.session(name), mapping=record)
        await redis.sadd(keys.SESSIONS_ALL, name)
        await redis.sadd(keys.SESSIONS_ACTIVE, name)
        await redis.sadd(keys.sessions_of_phone(phone), name)


async def assert_same_places(redis: Redis, storing: Scripts) -> None:
    """Fail if the bulk load leaves a message in other places, or with other fields, than the product's scripts do."""
    scripts = Scripts(redis)
    for number, send in ((8, True), (2, False)):  # one that is delivered, one that is cancelled
        await redis.flushall()
        await add_sessions(redis)
        await store_by_the_product(scripts, number, send=send)
        expected = await places_of(redis, number)
        await redis.flushall()
        await storing.run("store", [], [number, 1, number, await scripts.now_ms()])
        found = await places_of(redis, number)
        assert found == expected, (found - expected, expected - found)
    await redis.flushall()


async def store_by_the_product(scripts: Scripts, number: int, *, send: bool) -> None:
    """Bring a message to its end as the product does."""
    name, whatsapp_id, to = f"m_{number:018x}", f"3EB0{number:018X}", f"97252{number:07d}"
    place = Place(name, f"97250{number:07d}", f"w{number}")
    fields = MessageChanges(
        kind="text", body="{}", api_key="k", why="MOST_ROOM", reference="order-0", batch="b_" + "0" * 18
    )
    message = admission.NewMessage(name, whatsapp_id, place.phone, place.session, to, fields=fields)
    await admission.accept(scripts, message, admission.Room(10, 10, 0))
    await queues.route(scripts, place, to=to, reference="order-0", batch="b_" + "0" * 18)
    if not send:
        await queues.cancel(scripts, place, reason="CANCELLED")
        return
    far_ms = 10**15
    await queues.release(scripts, place, queues.Permit(3000, 30, 500, 0, far_ms, 0, far_ms, 60_000), other_name=to)
    await outbox.claim(scripts, place.session, phone=place.phone, epoch=1, lease_ms=60_000)
    await outbox.confirm_write(scripts, place, outbox.WritePermit(to, 0, far_ms, ()), epoch=1, lease_ms=60_000)
    for status in ("sent", "delivered"):
        receipt = outbox.MessageReport(place.session, status, whatsapp_id, 1)
        await outbox.ack(scripts, place, receipt, to=to, day="20260101")


async def places_of(redis: Any, number: int) -> set[str]:
    """Return every place where a message stands, and the fields of its record."""
    name, found = f"m_{number:018x}", set()
    short_lived = {keys.submitted(f"97250{number:07d}"), keys.EVENTS}
    async for key in redis.scan_iter(count=1000):
        kind = await redis.type(key)
        if kind == "zset" and key not in short_lived:
            members = await redis.zrange(key, 0, -1)
            found |= {
                f"{key} {' '.join(part for part in each.split() if not part.isdigit())}"
                for each in members
                if name in each
            }
        elif key == keys.message(name):
            found |= {f"{key} {field}" for field in await redis.hkeys(key)}
        elif key == keys.timeline(name):
            found.add(f"{key} {' '.join(line.split(' ')[1] for line in await redis.lrange(key, 0, -1))}")
    return found


Question = Callable[[Store], Awaitable[httpx.Response]]


def search(**query: Any) -> Question:
    """Ask the API for the first page of a search; a callable is given the store."""

    def ask(store: Store) -> Awaitable[httpx.Response]:
        # As many as the smaller store has of a session, so that both answers are of one size.
        params = {"limit": 20} | {name: value(store) if callable(value) else value for name, value in query.items()}
        return store.api.get("/api/v1/messages", params=params)

    return ask


def page(path: str) -> Question:
    """Ask for a page of the dashboard."""
    return lambda store: store.pages.get(path)


QUESTIONS: dict[str, Question] = {
    "API: first page": search(),
    "API: by status": search(status="failed"),
    "API: by session": search(sessionId="w7"),
    "API: by session and status": search(sessionId="w0", status="failed"),
    "API: by reference": search(reference=lambda store: f"order-{store.middle // 10}"),
    "API: by recipient": search(to=lambda store: f"97252{store.middle % 20_000:07d}"),
    "API: by batch": search(batchId=lambda store: f"b_{store.middle // 100:018x}"),
    "dashboard: first page": page("/messages"),
    "dashboard: by status": page("/messages?status=failed"),
    "dashboard: by session": page("/messages?session=w7"),
    "dashboard: by reference": page("/messages?q=order-50"),
}


async def cancel_batch(store: Store) -> float:
    """Send and route a batch, and return how long its cancellation takes."""
    messages = [{"to": f"97253{n:07d}", "message": "hello"} for n in range(IN_BATCH)]
    batch = (await store.api.post("/api/v1/send/batch", json={"messages": messages})).json()
    while await store.router.step():
        pass
    begun = time.perf_counter()
    told = (await store.api.delete("/api/v1/queue", params={"batchId": batch["batchId"]})).json()
    took_s = time.perf_counter() - begun
    assert told["cancelled"] == IN_BATCH, (told, batch)
    return took_s


async def ask(question: Question, store: Store) -> float:
    """Return how long an answer takes."""
    begun = time.perf_counter()
    response = await question(store)
    took_s = time.perf_counter() - begun
    assert response.status_code == 200, response.text
    assert "json" not in response.headers["content-type"] or response.json()["messages"], "found nothing"
    return took_s


async def measure(few: Store, many: Store) -> dict[str, dict[str, float]]:
    """Ask both in turns, and compare the medians."""
    measured = {name: await compare(partial(ask, question), few, many) for name, question in QUESTIONS.items()}
    measured["cancel a batch of 50"] = await compare(cancel_batch, few, many, ROUNDS // 2)
    return measured


async def compare(
    work: Callable[[Store], Awaitable[float]], few: Store, many: Store, rounds: int = ROUNDS
) -> dict[str, float]:
    """Return the medians of both in milliseconds, and their ratio."""
    took: dict[int, list[float]] = {few.messages: [], many.messages: []}
    for n in range(rounds + 2):
        for store in (few, many) if n % 2 else (many, few):
            took_s = await work(store)
            if n >= 2:  # the first ones fill caches
                took[store.messages].append(took_s * 1000)
    low, high = (statistics.median(each) for each in took.values())
    return {"few_ms": round(low, 2), "many_ms": round(high, 2), "times": round(high / low, 2)}


async def main() -> int:
    """Fill, measure, write the result, and fail where a million takes more than twice as long."""
    configure("warning")
    with tempfile.TemporaryDirectory() as home:
        async with open_store(Path(home) / "few", FEW) as few, open_store(Path(home) / "many", MANY) as many:
            memory = (await many.redis.info("memory"))["used_memory"]
            measured = await measure(few, many)
    broken = [name for name, each in measured.items() if each["times"] > MOST_TIMES]
    result = {
        "what": f"{MANY:,} stored messages against {FEW:,}: medians of answers in turns, durable Redis",
        "command": "python -m bench.stored_messages",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "redis_mb": round(memory / 1e6),
        "measured": measured,
        "target": f"each within {MOST_TIMES:g} times the time of a thousand",
        "broken": broken,
    }
    _results.keep("stored_messages", result)
    print(json.dumps(result, indent=2))
    return len(broken)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
