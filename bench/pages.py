"""CPU time of a page and of the API's lists with 500 and with 2,000 sessions.

Run as `python -m bench.pages`; with `BENCH_BEFORE=<another checkout>` both are measured in turns. The result goes to
`bench/results/pages.json`. Limit: with four times the sessions a page costs at most four times as much.
"""

import asyncio
from typing import Any
from urllib.parse import urlencode

from bench import _fleet, _served
from bench._paired import Server, keep, measured, quartiles, request_bytes, rounds, send_all, served, trees

SESSIONS = (500, 2000)
ROUNDS = rounds(3)
REPEATED = 5
PAGES = {
    "page of the fleet": "/",
    "page of the proxies": "/proxies",
    "API, 50 sessions": "/api/sessions?limit=50",
    "API, counts of a week": "/api/v1/stats?days=7",
}


async def log_in(server: Server) -> str:
    """Log in with the password; returns the cookie."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    origin = f"http://127.0.0.1:{server.port}"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin, "Host": origin[7:]}
    body = urlencode({"password": _served.PASSWORD}).encode()
    writer.write(request_bytes("POST", "/login", headers, body))
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    cookie = head.lower().partition(b"set-cookie: ")[2].partition(b";")[0]
    at = head.lower().index(cookie)
    return head[at : at + len(cookie)].decode()


async def _costs(server: Server) -> dict[str, float]:
    headers = {"Cookie": await log_in(server), "X-API-Key": _served.API_KEY}
    found = {}
    for page, path in PAGES.items():
        request = request_bytes("GET", path, headers)
        await send_all(server.port, [request], 1)  # warm up
        with measured(server, REPEATED) as cost:
            await send_all(server.port, [request] * REPEATED, 1)
        found[page] = cost().server_ms
    return found


async def measure() -> dict[str, Any]:
    found: dict[str, dict[int, list[dict[str, float]]]] = {}
    for _ in range(ROUNDS):
        for name, tree in trees().items():
            for sessions in SESSIONS:
                async with served(tree, "main") as server:
                    await _fleet.fill(server.redis, sessions)
                    found.setdefault(name, {}).setdefault(sessions, []).append(await _costs(server))
    return {
        page: {
            name: {str(sessions): quartiles([each[page] for each in by_size[sessions]]) for sessions in SESSIONS}
            for name, by_size in found.items()
        }
        for page in PAGES
    }


def main() -> None:
    keep("pages", {"unit": "ms of server CPU per request", "rounds": ROUNDS, "result": asyncio.run(measure())})


if __name__ == "__main__":
    main()
