"""Redis' memory per ended message, with and without `--hash-max-listpack-value 1024`, and what its commands cost.

`python -m bench.message_memory` writes 4,000 messages as `bench/stored_messages.lua` leaves them into two servers, and
compares their memory and, in alternating rounds, the CPU time of commands on messages. The result goes to
`bench/results/message_memory.json`.
"""

import asyncio
import json
import os
import statistics
import sys
from typing import Any

from redis.asyncio import Redis
from tests.redis_server import FORGETFUL, redis_server

from bench import _results
from bench.stored_messages import PER_CALL, add_sessions, bulk_scripts
from wa_orchestrator.store import keys

MESSAGES, CHANGED, ROUNDS = 4_000, 2_000, 7


async def fill(redis: Any) -> int:
    """Write the messages; return the bytes that each takes, with all its keys."""
    await add_sessions(redis)
    storing = bulk_scripts(redis)
    now_ms, before = await storing.now_ms(), (await redis.info("memory"))["used_memory"]
    for first in range(1, MESSAGES + 1, PER_CALL):
        await storing.run("store", [], [first, PER_CALL, MESSAGES, now_ms])
    return int((await redis.info("memory"))["used_memory"] - before) // MESSAGES


async def cpu_us(redis: Any) -> float:
    """Return the CPU time of one command on a message, in microseconds."""
    pipe, before = redis.pipeline(transaction=False), await redis.info("cpu")
    for name in (keys.message(f"m_{n:018x}") for n in range(1, CHANGED + 1)):
        pipe.hmget(name, "status", "accepted_at", "session")
        pipe.hset(name, mapping={"status": "read", "reason": ""})
        pipe.hgetall(name)
    await pipe.execute()
    after = await redis.info("cpu")
    used_s = sum(after[name] - before[name] for name in ("used_cpu_user", "used_cpu_sys"))
    return float(used_s / (3 * CHANGED) * 1e6)


async def main() -> int:
    with redis_server(*FORGETFUL) as plain, redis_server(*FORGETFUL, "--hash-max-listpack-value", "1024") as compact:
        servers = {"64": Redis.from_url(plain.url, decode_responses=True)}
        servers["1024"] = Redis.from_url(compact.url, decode_responses=True)
        size = {name: await fill(redis) for name, redis in servers.items()}
        took: dict[str, list[float]] = {name: [] for name in servers}
        for n in range(ROUNDS):
            for name in sorted(servers, reverse=bool(n % 2)):
                took[name].append(await cpu_us(servers[name]))
        for redis in servers.values():
            await redis.aclose()
    result = {
        "what": "Redis' memory per ended message, all its keys, and CPU per command, by --hash-max-listpack-value",
        "command": "python -m bench.message_memory",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "measured": {
            name: {"bytes_per_message": size[name], "cpu_us_per_command": round(statistics.median(took[name]), 2)}
            for name in servers
        },
    }
    _results.keep("message_memory", result)
    print(json.dumps(result, indent=2))
    return int(size["1024"] >= size["64"])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
