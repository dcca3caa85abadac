"""Latency and CPU of an accepted message with 200 and with 2,000 sessions.

The client names no sender, so that the gateway chooses among all. Run as `python -m bench.acceptance`; with
`BENCH_BEFORE=<another checkout>` both are measured in turns. The result goes to `bench/results/acceptance.json`.
Limit: the 99th percentile with 2,000 sessions is at most 1.5 times that with 200.
"""

import asyncio
import json
from typing import Any

from bench import _fleet, _served
from bench._paired import Server, keep, measured, quartiles, request_bytes, rounds, send_all, served, trees

SESSIONS = (200, 2000)
MESSAGES = 3000
CONNECTIONS = 16
ROUNDS = rounds(5)
_HEADERS = {"X-API-Key": _served.API_KEY, "Content-Type": "application/json"}


def _requests(first: int, count: int) -> list[bytes]:
    bodies = (json.dumps({"to": f"97252{number:07d}", "message": "hi"}) for number in range(first, first + count))
    return [request_bytes("POST", "/api/v1/send", _HEADERS, body.encode()) for body in bodies]


async def _round(server: Server) -> dict[str, float]:
    await send_all(server.port, _requests(0, 300), CONNECTIONS)  # warm up
    requests = _requests(1000, MESSAGES)
    with measured(server, MESSAGES) as cost:
        latencies = sorted(await send_all(server.port, requests, CONNECTIONS))
    return {
        "p50_ms": latencies[len(latencies) // 2],
        "p99_ms": latencies[len(latencies) * 99 // 100],
        "server_cpu_ms": cost().server_ms,
        "redis_cpu_ms": cost().redis_ms,
    }


async def measure() -> dict[str, Any]:
    found: dict[str, dict[int, list[dict[str, float]]]] = {}
    for _ in range(ROUNDS):
        for name, tree in trees().items():
            for sessions in SESSIONS:
                async with served(tree, "gateway") as server:
                    await _fleet.fill(server.redis, sessions)
                    found.setdefault(name, {}).setdefault(sessions, []).append(await _round(server))
    return {name: _summary(by_size) for name, by_size in found.items()}


def _summary(by_size: dict[int, list[dict[str, float]]]) -> dict[str, Any]:
    small, large = (by_size[sessions] for sessions in SESSIONS)
    ratios = [many["p99_ms"] / few["p99_ms"] for few, many in zip(small, large, strict=True)]
    sizes = {
        f"{sessions} sessions": {figure: quartiles([each[figure] for each in every]) for figure in every[0]}
        for sessions, every in by_size.items()
    }
    return {**sizes, "p99 with 2,000 over p99 with 200": quartiles(ratios)}


def main() -> None:
    facts = {"messages": MESSAGES, "connections": CONNECTIONS, "rounds": ROUNDS}
    keep("acceptance", {**facts, "result": asyncio.run(measure())})


if __name__ == "__main__":
    main()
