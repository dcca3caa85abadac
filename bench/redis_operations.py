"""What a unit of work asks of Redis: an installation and a linked session at rest, a message from request to receipt.

`python -m bench.redis_operations --fleet 8` counts the calls of clients and of scripts and Redis' CPU time in a whole
product with real workers, first without a session. The counts do not depend on the machine; `docs/scale.md` multiplies
them by thousands of sessions. The result goes to `bench/results/redis_operations.json`.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis
from tests.orchestrator.product import running_product

from bench._paired import cpu_s, keep
from bench.whole_product import PER_PROXY, SETTINGS, Fleet
from wa_orchestrator.store.engine import embedded_redis


class Usage(NamedTuple):
    """What Redis has done so far."""

    at_s: float
    scripts: int
    """Scripts that clients ran."""
    commands: int
    """All commands: those of clients, and those that scripts ran inside Redis."""
    written_bytes: int
    """How much its append-only file has grown."""
    cpu_s: float


def usage(redis: Redis, pid: int) -> Usage:
    calls: dict[str, Any] = redis.info("commandstats")
    counts = {name: int(each["calls"]) for name, each in calls.items()}
    size: dict[str, Any] = redis.info("persistence")
    scripts = sum(count for name, count in counts.items() if name in ("cmdstat_eval", "cmdstat_evalsha"))
    return Usage(time.monotonic(), scripts, sum(counts.values()), int(size["aof_current_size"]), cpu_s(pid))


def between(before: Usage, after: Usage, units: float, rest: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return what each of so many units cost, without what is spent at rest in the same time."""
    took_s = after.at_s - before.at_s
    spent = {
        "scripts": after.scripts - before.scripts,
        "commands": after.commands - before.commands,
        "written_bytes": after.written_bytes - before.written_bytes,
        "redis_cpu_ms": 1000 * (after.cpu_s - before.cpu_s),
    }
    return {name: round((value - took_s * (rest or {}).get(name, 0)) / units, 3) for name, value in spent.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as home,
        running_product(Path(home), -(-options.fleet // PER_PROXY) + 2, **SETTINGS) as product,
        Redis.from_url(embedded_redis.url_in(Path(home) / "data"), decode_responses=True) as redis,
    ):
        fleet = Fleet(product, options.fleet)
        pid = fleet.redis_pid()

        def rested() -> tuple[Usage, Usage]:
            before = usage(redis, pid)
            time.sleep(options.rest)
            return before, usage(redis, pid)

        empty = between(*(without := rested()), without[1].at_s - without[0].at_s)
        product.link(*fleet.ids)
        before, linked = rested()
        sent = fleet.send(options.messages, {"server_percent": 0.0, "redis_percent": 0.0})
        after = usage(redis, pid)
    per_second = between(before, linked, linked.at_s - before.at_s)
    return {
        "installation_each_second": empty,
        "session_each_minute": between(before, linked, len(fleet.ids) * (linked.at_s - before.at_s) / 60, empty),
        "sent_message": between(linked, after, sent["messages"], per_second),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fleet", type=int, default=8, help="sessions, each with a real worker")
    parser.add_argument("--messages", type=int, default=10, help="messages of each session")
    parser.add_argument("--rest", type=float, default=60, help="seconds at rest")
    options = parser.parse_args()
    arguments = f"--fleet {options.fleet} --messages {options.messages} --rest {options.rest:g}"
    keep("redis_operations", {"fleet": options.fleet, "result": measure(options)}, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
