"""CPU time of a Redis command, over redis-py's pool and over the line, in paired rounds.

The two take turns within every round, so that a noisy machine disturbs both alike; the figures are medians with
quartiles, and CPU time of this process, not time on the clock. Run as `python -m bench.redis_line`; the result goes to
`bench/results/redis_line.json`.
"""

import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from redis.asyncio import BlockingConnectionPool, Redis

from bench import _results
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts

ROUNDS = 9
COMMANDS = 320
CONCURRENCY = (1, 32)
#: A command must cost at most this share of what it costs over redis-py's pool.
LIMIT = 0.5

Act = Callable[[], Awaitable[object]]


async def _cpu_us(act: Act, concurrency: int) -> float:
    """Return the CPU time of one command in microseconds."""

    async def caller() -> None:
        for _ in range(COMMANDS // concurrency):
            await act()

    begun = time.process_time()
    await asyncio.gather(*(caller() for _ in range(concurrency)))
    return (time.process_time() - begun) / COMMANDS * 1e6


def _acts(redis: Redis) -> dict[str, Act]:
    scripts = Scripts(redis)
    return {
        "hgetall": lambda: redis.hgetall("session"),
        "set": lambda: redis.set("key", "value"),
        "script": scripts.now_ms,
    }


def _summary(figures: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(figures, n=4)
    return {"median": round(median, 2), "q1": round(low, 2), "q3": round(high, 2)}


async def _compare(pooled: Redis, line: Redis) -> dict[str, object]:
    before, after = _acts(pooled), _acts(line)
    found: dict[str, object] = {}
    for name in before:
        for concurrency in CONCURRENCY:
            rounds = []
            for number in range(ROUNDS + 1):
                sides = [before[name], after[name]]
                order = (0, 1) if number % 2 else (1, 0)
                spent = {side: await _cpu_us(sides[side], concurrency) for side in order}
                if number:  # the first round warms up
                    rounds.append((spent[0], spent[1]))
            found[f"{name} x{concurrency}"] = {
                "pool_us": _summary([each[0] for each in rounds]),
                "line_us": _summary([each[1] for each in rounds]),
                "ratio": _summary([each[1] / each[0] for each in rounds]),
            }
    return found


async def _measure() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as home:
        async with EmbeddedRedis(Path(home)) as server:
            pool = BlockingConnectionPool.from_url(server.url, decode_responses=True, health_check_interval=30)
            async with Redis.from_pool(pool) as pooled, LineClient.from_url(server.url, decode_responses=True) as line:
                await pooled.config_set("appendfsync", "no")  # the disk takes time, and none of this process
                await pooled.hset("session", mapping={f"field{n}": f"value {n}" for n in range(30)})
                return await _compare(pooled, line)


def main() -> int:
    """Measure, write the result, and fail when the line saves too little."""
    result = asyncio.run(_measure())
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    told = {
        "command": "python -m bench.redis_line",
        "rounds": ROUNDS,
        "limit": LIMIT,
        "machine": machine,
        "result": result,
    }
    _results.keep("redis_line", told)
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    ratios = [each["ratio"]["median"] for each in result.values()]  # type: ignore[index]
    return int(max(ratios) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
