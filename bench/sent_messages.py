"""Cost of a sent message, from request to read receipt, and how many the product sends in a second.

`python -m bench.sent_messages` runs every loop of the product in one process; stand-ins claim, confirm, acknowledge and
report as workers do. With `BENCH_BEFORE=<another checkout>` both are measured in turns. First at 20 messages a second:
CPU time of server and Redis, and what Redis is asked, without what the product takes at rest. Then without pauses,
as many as it sends. The result goes to `bench/results/sent_messages.json`.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis
from standardwebhooks.webhooks import Webhook

from bench import _served
from bench._paired import Server, answer, cpu_s, keep, quartiles, request_bytes, rounds, send_all, served, trees
from wa_orchestrator.orchestrator.workers import tokens

SESSIONS = 20
MESSAGES = 12
#: Some 15 messages a second, as 6,000 sessions send them by day.
LIMITS = {
    "per_day": 100_000, "per_minute": 60, "pause_base_ms": 1000, "pause_range_ms": 500, "opens": "00:00",
    "closes": "00:00",
}  # fmt: skip
#: Nothing but the work itself limits how many are sent.
UNPACED = LIMITS | {"per_minute": 100_000, "pause_base_ms": 0, "pause_range_ms": 0}
UNPACED_MESSAGES = 30
CONNECTIONS = 8
ROUNDS = rounds(3)
REST_S = 10.0
_WAIT_MS = 25_000
_NAMES: Final = tuple(f"w{at:03d}" for at in range(SESSIONS))


class Usage(NamedTuple):
    """What server and Redis have done so far."""

    at_s: float
    server_cpu_ms: float
    redis_cpu_ms: float
    scripts: float
    commands: float
    """Of clients and of scripts."""


async def usage(server: Server) -> Usage:
    stats: dict[str, Any] = await server.redis.info("commandstats")
    counts = {name: int(each["calls"]) for name, each in stats.items()}
    scripts = counts.get("cmdstat_evalsha", 0) + counts.get("cmdstat_eval", 0)
    cpu_ms = 1000 * cpu_s(server.pid), 1000 * cpu_s(server.redis_pid)
    return Usage(time.monotonic(), *cpu_ms, scripts, sum(counts.values()))


class Worker:
    """A stand-in: sends what it claims to nobody, and says that it was delivered and read."""

    def __init__(self, server: Server, port: int, name: str) -> None:
        self._port, self._name = port, name
        self._credentials = tokens.mint(_served.settings(server.home), name, 1)
        self._events = 0
        self.read = 0

    async def run(self) -> None:
        way = await asyncio.open_connection("127.0.0.1", self._port)
        while True:
            claimed = await self._ask(way, "claim", {"waitMs": _WAIT_MS, "process": "stand-in"})
            if "messageId" in claimed:
                await self._send(way, claimed["messageId"], claimed["whatsappId"])

    async def _send(self, way: Any, message: str, whatsapp_id: str) -> None:
        await self._ask(way, f"{message}/renew", {"beforeWrite": True})
        await self._ask(way, f"{message}/ack", {"whatsappId": whatsapp_id, "timestamp": _now_ms()})
        for status in ("delivered", "read"):
            await self._tell(way, "MESSAGE_STATUS", {"whatsappId": whatsapp_id, "status": status, "at": _now_ms()})
        self.read += 1

    async def _ask(self, way: Any, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._credentials.token}"}
        url = f"/api/worker/sessions/{self._name}/outbox/{path}"
        return await _exchange(way, request_bytes("POST", url, headers, json.dumps(body).encode()))

    async def _tell(self, way: Any, kind: str, data: dict[str, Any]) -> None:
        self._events += 1
        raw = {"sessionId": self._name, "type": kind, "timestamp": _now_ms(), "epoch": 1, "sequence": self._events}
        body, name, now = json.dumps(raw | {"data": data}), f"evt_{self._name}_{self._events}", datetime.now(tz=UTC)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(self._credentials.webhook_secret).sign(name, now, body),
        }
        await _exchange(way, request_bytes("POST", "/webhook", headers, body.encode()))


async def _exchange(way: Any, request: bytes) -> dict[str, Any]:
    reader, writer = way
    writer.write(request)
    status, body = await answer(reader)
    assert status < 300, (status, body[:300])
    return json.loads(body) if body else {}


def _now_ms() -> int:
    return int(time.time() * 1000)


async def _fill(redis: Redis) -> None:
    """Make connected sessions."""
    pipe, now = redis.pipeline(), _now_ms()
    for at, name in enumerate(_NAMES):
        phone = f"97250{at:07d}"
        record: dict[Any, Any] = {
            "id": name, "status": "connected", "phone": phone, "epoch": 1, "version": 1, "wanted": "running",
            "direct": 1, "created_at": now, "changed_at": now, "connected_at": now, "first_connected_at": now,
            "last_ping_at": now, "started_at": now, "ping_socket": "open", "limits": json.dumps(LIMITS),
        }  # fmt: skip
        pipe.hset(f"session:{name}", mapping=record)
        for key in ("sessions:all", "sessions:active", "sessions:connected", f"phone:sessions:{phone}"):
            pipe.sadd(key, name)
    await pipe.execute()


async def _send(server: Server, each: int, workers: Sequence[Worker], running: Sequence[asyncio.Future[None]]) -> float:
    """Send so many messages from each session, and return in how many seconds all of them were read."""
    read, headers = _read(workers), {"Content-Type": "application/json", "X-API-Key": _served.API_KEY}
    requests = []
    for number in range(read, read + SESSIONS * each):
        body = {"to": f"97255{number:07d}", "message": f"Order {number}.", "sessionId": _NAMES[number % SESSIONS]}
        requests.append(request_bytes("POST", "/api/v1/send", headers, json.dumps(body).encode()))
    begun = time.monotonic()
    await send_all(server.port, requests, CONNECTIONS)
    while _read(workers) < read + len(requests):
        await asyncio.sleep(0.02)
        for worker in running:
            assert not worker.done(), worker.exception()
    return time.monotonic() - begun


def _read(workers: Sequence[Worker]) -> int:
    """Return how many messages were read."""
    return sum(worker.read for worker in workers)


async def _round(tree: Path) -> dict[str, float]:
    async with served(tree, "whole", _fill) as server:
        port = int((server.home / _served.WORKERS_PORT).read_text(encoding="ascii"))
        workers = [Worker(server, port, name) for name in _NAMES]
        running = [asyncio.ensure_future(worker.run()) for worker in workers]
        await asyncio.sleep(5)  # every loop has had its first rounds
        before = await usage(server)
        await asyncio.sleep(REST_S)
        rested = await usage(server)
        await _send(server, MESSAGES, workers, running)
        await asyncio.sleep(3)  # what follows: counts, the journal
        after = await usage(server)
        for name in _NAMES:
            await server.redis.hset(f"session:{name}", "limits", json.dumps(UNPACED))
        took_s, spent_s = await _send(server, UNPACED_MESSAGES, workers, running), cpu_s(server.pid)
        for each in running:
            each.cancel()
    sent = SESSIONS * UNPACED_MESSAGES
    return _each(before, rested, after) | {
        "unpaced_per_s": sent / took_s,
        "unpaced_server_cpu_ms": (1000 * spent_s - after.server_cpu_ms) / sent,
    }


def _each(before: Usage, rested: Usage, after: Usage) -> dict[str, float]:
    found = {"rest_server_percent": (rested.server_cpu_ms - before.server_cpu_ms) / (rested.at_s - before.at_s) / 10}
    lasted = (after.at_s - rested.at_s) / (rested.at_s - before.at_s)
    for name in Usage._fields[1:]:
        first, second, third = (getattr(usage, name) for usage in (before, rested, after))
        found[name] = (third - second - lasted * (second - first)) / (SESSIONS * MESSAGES)
    return found


async def measure() -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(ROUNDS):
        for name, tree in trees().items():
            found.setdefault(name, []).append(await _round(tree))
            sys.stderr.write(f"{name}: {found[name][-1]}\n")
    return {
        name: {figure: quartiles([each[figure] for each in every]) for figure in every[0]}
        for name, every in found.items()
    }


def main() -> None:
    os.environ["SESSIONS"] = " ".join(_NAMES)
    result = asyncio.run(measure())
    keep("sent_messages", {"sessions": SESSIONS, "messages": MESSAGES, "rounds": ROUNDS, "result": result})


if __name__ == "__main__":
    main()
