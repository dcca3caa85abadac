"""Lateness of a dispatcher with a thousand full queues, and the cost of a release by the number of sessions.

`python -m bench.dispatcher` runs one dispatcher in a process of its own on one core, at about 300 releases a second,
once with 100 sessions and once with 1,000. Workers are simulated here: they take and acknowledge at once, so that the
only thing that is measured is how long after the end of a pause the next message leaves.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis

from bench import _results
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import admission, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import MessageChanges

PER_SECOND = 300
WARM_UP_S = 5.0
MEASURED_S = 15.0


def limits(sessions: int) -> str:
    """Return pauses with which this many sessions make about 300 releases a second."""
    mean_ms = sessions * 1000 // PER_SECOND
    return json.dumps(
        {
            "opens": "00:00",
            "closes": "00:00",
            "per_day": 10**6,
            "per_minute": 10**6,
            "pause_base_ms": mean_ms // 2,
            "pause_range_ms": mean_ms,
        }
    )


async def fill(scripts: Scripts, sessions: int, each: int) -> None:
    """Create connected sessions with full queues, due at scattered instants."""
    pipe = scripts.redis.pipeline(transaction=False)
    for n in range(sessions):
        name, phone = f"w{n}", f"97250{n:07d}"
        record: dict[Any, Any] = {
            "id": name, "status": "connected", "phone": phone, "epoch": 1, "version": 1, "first_connected_at": 1,
            "limits": limits(sessions),
        }  # fmt: skip
        pipe.hset(keys.session(name), mapping=record)
        pipe.sadd(keys.SESSIONS_ALL, name)
        pipe.sadd(keys.SESSIONS_ACTIVE, name)
        pipe.sadd(keys.sessions_of_phone(phone), name)
    await pipe.execute()
    for number in range(each):
        await asyncio.gather(*(_put(scripts, n, number) for n in range(sessions)))
    now_ms = await scripts.now_ms()
    for n in range(sessions):
        silent_until = now_ms + 5_000 + random.randrange(sessions * 1000 // PER_SECOND)
        pipe.hset(keys.pace(f"97250{n:07d}"), "silent_until", silent_until)
    await pipe.execute()


async def _put(scripts: Scripts, n: int, number: int) -> None:
    name = f"m_{number * 10_000 + n:018x}"
    place = Place(name, f"97250{n:07d}", f"w{n}")
    body = MessageChanges(kind="text", body='{"kind": "text", "text": "hello"}')
    message = admission.NewMessage(name, f"3EB0{name[2:].upper()}", place.phone, place.session, "97251", fields=body)
    await admission.accept(scripts, message, admission.Room(10**6, 10**6, 0))
    await queues.route(scripts, place, to="97251")


class Workers:
    """The workers of all sessions: claim released messages, acknowledge them, and record how late they were."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._due: dict[str, int] = {}
        self.late_ms: list[int] = []
        self.measuring = False

    async def run(self) -> None:
        async with self._scripts.redis.pubsub() as channel:
            await channel.subscribe(keys.OUTBOX_SIGNAL)
            async with asyncio.TaskGroup() as tasks:
                async for message in channel.listen():
                    if message["type"] == "message":
                        tasks.create_task(self._serve(str(message["data"])))

    async def _serve(self, session: str) -> None:
        phone = f"97250{int(session[1:]):07d}"
        claimed = await outbox.claim(self._scripts, session, phone=phone, epoch=1, lease_ms=60_000)
        if not isinstance(claimed, tuple):
            return
        place = claimed[0]
        released: Any = await self._scripts.redis.hmget(keys.message(place.message), ["released_at", "pause_ms", "to"])
        if self.measuring and phone in self._due:
            self.late_ms.append(int(float(released[0])) - self._due[phone])
        receipt = outbox.MessageReport(session, "sent", f"3EB0{place.message[2:].upper()}", 1)
        await outbox.ack(self._scripts, place, receipt, to=str(released[2]), day="20260101")
        self._due[phone] = int(float(await self._scripts.redis.hget(keys.pace(phone), "silent_until") or 0))


async def measure(sessions: int) -> dict[str, Any]:
    """One run."""
    with tempfile.TemporaryDirectory() as home:
        server = EmbeddedRedis(Path(home))
        await server.start()
        pool = BlockingConnectionPool.from_url(server.url, decode_responses=True, max_connections=60)
        redis = Redis(connection_pool=pool)
        scripts = Scripts(redis)
        each = int(PER_SECOND * (WARM_UP_S + MEASURED_S + 10) / sessions) + 4
        await fill(scripts, sessions, each)
        workers = Workers(scripts)
        serving = asyncio.create_task(workers.run())
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.dispatcher", "--serve", server.url,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            return await _watch(child, workers, sessions)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
            await redis.aclose()
            await server.stop()


async def _watch(child: asyncio.subprocess.Process, workers: Workers, sessions: int) -> dict[str, Any]:
    await asyncio.sleep(5 + WARM_UP_S)
    before = await _cpu(child)
    workers.measuring, begun = True, time.monotonic()
    await asyncio.sleep(MEASURED_S)
    workers.measuring, took_s = False, time.monotonic() - begun
    cpu_s = await _cpu(child) - before
    late = sorted(workers.late_ms)
    return {
        "sessions": sessions,
        "releases_per_second": round(len(late) / took_s, 1),
        "late_ms": {
            "median": statistics.median(late),
            "p99": late[int(len(late) * 0.99)],
            "worst": late[-1],
            "earliest": late[0],
        },
        "cpu_ms_per_release": round(cpu_s * 1000 / len(late), 3),
        "cpu_of_one_core": round(cpu_s / took_s, 3),
    }


async def _cpu(child: asyncio.subprocess.Process) -> float:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"\n")
    await child.stdin.drain()
    return float(await child.stdout.readline())


async def serve(url: str) -> None:
    """Run one dispatcher on one core; it prints its CPU time on request."""
    from wa_orchestrator.context import make_context
    from wa_orchestrator.dispatcher.dispatcher import Dispatcher
    from wa_orchestrator.logs import configure

    configure("warning")
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    redis = LineClient.from_url(url, decode_responses=True)
    dispatcher = asyncio.create_task(Dispatcher(make_context(Settings(timezone="UTC"), redis)).run())
    while await asyncio.to_thread(sys.stdin.readline):
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(used.ru_utime + used.ru_stime, flush=True)
    dispatcher.cancel()


async def main() -> None:
    """Run both, and write the result as JSON."""
    runs = [await measure(sessions) for sessions in (100, 1000)]
    few, many = runs
    result = {
        "what": "one dispatcher on one core, full queues, durable Redis, workers that answer at once",
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[1], 2),
        "runs": runs,
        "cost_with_1000_over_100_sessions": round(many["cpu_ms_per_release"] / few["cpu_ms_per_release"], 2),
        "target": "p99 at most 100 ms late at 300 releases a second; the cost of a release does not grow",
    }
    _results.keep("dispatcher", result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", metavar="REDIS_URL")
    given = parser.parse_args()
    asyncio.run(serve(given.serve) if given.serve else main())
