"""What the leader's loops cost a session at rest: CPU time of the server and of Redis, at two sizes of the fleet.

The engine is in memory, so this is the server's own part. `python -m bench.leader_loops`.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr
from redis.asyncio import Redis
from tests.orchestrator.fakes import API_KEY, part
from tests.orchestrator.test_moves import FakeCluster
from tests.redis_server import DURABLE, redis_server

from bench._results import keep
from wa_orchestrator.context import make_context
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.orchestrator import leader_lease
from wa_orchestrator.orchestrator.service import Orchestrator, assemble
from wa_orchestrator.orchestrator.workers.node_watch import NodeWatch
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher, Watchdog
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.line_client import LineClient

SIZES: Final = (500, 2000)
ROUNDS: Final = 5
LOOPS: Final = (ExitWatcher, NodeWatch, Reconciler, Watchdog)


async def fill(control: Orchestrator, runner: FakeCluster, size: int) -> None:
    """Let so many connected sessions run, each on a node."""
    scripts = control.context.scripts
    now = await scripts.now_ms()
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for number in range(size):
            name, node = f"s{number:05}", f"node-{1 + number % 3}"
            handle = f"fake/1/{number}@{node}"
            runner.running[handle] = FoundWorker(handle, name, 1, now)
            facts: dict[Any, Any] = {
                "id": name, "status": "connected", "wanted": "running", "epoch": 1, "proxy": f"p{number // 4}",
                "node": node, "phone": f"97250{number:07}", "first_connected_at": now, "connected_at": now,
                "last_ping_at": now, "started_at": now, "version": 1,
            }  # fmt: skip
            pipe.hset(keys.session(name), mapping=facts)
            pipe.sadd(keys.SESSIONS_ALL, name)
        await pipe.execute()


async def measure(size: int, home: Path) -> dict[str, Any]:
    settings = Settings(
        api_key=SecretStr(API_KEY),
        webhook_secret=SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw=="),
        dashboard_password=SecretStr("not-a-real-pass-phrase"),
        data_dir=home,
    )
    with redis_server(*DURABLE) as server:
        redis = LineClient.from_url(server.url, decode_responses=True)
        control = assemble(make_context(settings, redis), runner := FakeCluster())
        await fill(control, runner, size)
        await control.lease.step()
        await part(control, Reconciler).step()  # adopts all
        assert len(control.pool.workers) == size
        found = {loop.__name__: await one(part(control, loop), redis, size) for loop in LOOPS}
        await redis.aclose()
    return found


async def one(loop: Any, redis: Redis, size: int) -> dict[str, float]:
    """Let a loop step; return its cost for each session and second."""
    before, redis_before = time.process_time(), await redis_cpu_s(redis)
    for _ in range(ROUNDS):
        every_s = await loop.step()
    spent = {"server": time.process_time() - before, "redis": await redis_cpu_s(redis) - redis_before}
    figures = {name: round(1e6 * each / ROUNDS / size, 2) for name, each in spent.items()}
    return {
        "every_s": every_s,
        "server_us_a_session": figures["server"],
        "redis_us_a_session": figures["redis"],
        "server_percent_for_1000": round(100 * 1000 * figures["server"] / 1e6 / every_s, 3),
    }


async def redis_cpu_s(redis: Redis) -> float:
    facts = await redis.info("cpu")
    return float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])


async def main() -> None:
    leader_lease.LEASE_MS = 600_000  # nobody renews it here
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    result: dict[str, Any] = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory() as home:
            result[str(size)] = await measure(size, Path(home))
    total = round(sum(each["server_percent_for_1000"] for each in result[str(SIZES[-1])].values()), 2)
    kept = {"machine": machine, "rounds": ROUNDS, "sessions": result, "server_percent_for_1000": total}
    sys.stdout.write(keep("leader_loops", kept) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
