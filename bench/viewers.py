"""CPU of the server while people watch the fleet's page: one and ten viewers, 500 sessions, 50 events a second.

Run as `python -m bench.viewers`; with `BENCH_BEFORE=<another checkout>` both are measured in turns. The result goes to
`bench/results/viewers.json`. Limit: ten viewers take at most 25 % of a core.
"""

import asyncio
import time
from typing import Any
from urllib.parse import urlencode

from bench import _fleet
from bench._paired import Server, cpu_s, keep, quartiles, request_bytes, rounds, served, trees
from bench.pages import log_in

SESSIONS = 500
EVENTS_PER_S = 50
SECONDS = 15
ROUNDS = rounds(3)
VIEWERS = (0, 1, 10)
SHOWN = ",".join(f"worker_{number}" for number in range(25))


async def _watch(server: Server, cookie: str) -> None:
    """Read a live stream until cancelled."""
    query = urlencode({"page": "fleet", "ids": SHOWN, "found": SESSIONS})
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_bytes("GET", f"/events/ui?{query}", {"Cookie": cookie}))
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head, head
    try:
        while await reader.read(65536):
            pass
    finally:
        writer.close()


async def _emit(server: Server) -> None:
    """Emit events at an even pace: a session that reconnects, and messages."""
    begun = time.monotonic()
    for made in range(EVENTS_PER_S * SECONDS):
        number = made * 7 % SESSIONS
        now = int(time.time() * 1000)
        session, phone = f"worker_{number}", _fleet.phone_of(number)
        if made % 5 == 0:
            status = "connected" if made % 10 else "disconnected"
            await server.redis.hset(f"session:{session}", mapping={"status": status, "changed_at": now})
            event: dict[Any, Any] = {
                "type": f"session.{status}",
                "session": session,
                "reason": "",
                "at": now,
                "phone": phone,
            }
        else:
            await server.redis.zadd(f"phone:sent:{phone}", {f"b{made}#1": now})
            event = {"type": "message.sent", "session": session, "message": f"m_{made:018x}", "at": now}
        await server.redis.xadd("events", event)
        await asyncio.sleep(max(0.0, begun + (made + 1) / EVENTS_PER_S - time.monotonic()))


async def _share(server: Server, cookie: str, viewers: int) -> float:
    """Return which share of a core the server takes, in percent of the time that the events were meant to take."""
    watching = [asyncio.ensure_future(_watch(server, cookie)) for _ in range(viewers)]
    await asyncio.sleep(2)
    before = cpu_s(server.pid)
    await _emit(server)
    spent = cpu_s(server.pid) - before
    for each in watching:
        each.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return 100 * spent / SECONDS


async def measure() -> dict[str, Any]:
    found: dict[str, dict[int, list[float]]] = {}
    for _ in range(ROUNDS):
        for name, tree in trees().items():
            async with served(tree, "main") as server:
                await _fleet.fill(server.redis, SESSIONS)
                cookie = await log_in(server)
                for viewers in VIEWERS:
                    share = await _share(server, cookie, viewers)
                    found.setdefault(name, {}).setdefault(viewers, []).append(share)
    return {
        name: {f"{viewers} viewers": quartiles(shares) for viewers, shares in by_count.items()}
        for name, by_count in found.items()
    }


def main() -> None:
    facts = {"sessions": SESSIONS, "events_per_s": EVENTS_PER_S, "unit": "percent of a core"}
    keep("viewers", {**facts, "rounds": ROUNDS, "result": asyncio.run(measure())})


if __name__ == "__main__":
    main()
