"""Cost of a worker's event: CPU time of the server and of Redis, and commands in Redis, by kind of event.

Run as `python -m bench.worker_events`; with `BENCH_BEFORE=<another checkout>` both are measured in turns. The result
goes to `bench/results/worker_events.json`.
"""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from standardwebhooks.webhooks import Webhook

from bench import _served
from bench._paired import Server, keep, measured, quartiles, request_bytes, rounds, send_all, served, trees
from wa_orchestrator.orchestrator.workers import tokens

SESSIONS = 50
EVENTS = 200
ROUNDS = rounds(5)
CONNECTIONS = 8
KINDS = ("PING", "MESSAGE_SENT", "MESSAGE_STATUS", "MESSAGE_RECEIVED")


def _message(number: int) -> tuple[str, str]:
    return f"m_{number:018x}", f"3EB0{number:018X}"


def _data(kind: str, number: int) -> dict[str, Any]:
    message, whatsapp_id = _message(number)
    match kind:
        case "PING":
            return {"socket": "open", "lagMs": 2, "rssBytes": 17_000_000, "lastTrafficAt": 1_750_000_000_000}
        case "MESSAGE_SENT":
            return {"messageId": message, "whatsappId": whatsapp_id}
        case "MESSAGE_STATUS":
            return {"whatsappId": whatsapp_id, "status": "delivered", "at": int(time.time() * 1000)}
        case _:
            phone = f"97252{number % 10**7:07d}"
            said = {"from": f"{phone}@s.whatsapp.net", "phone": phone, "lid": f"{number}@lid"}
            return {"whatsappId": f"3A{number:020X}", "kind": "text", "text": "Thank you!", "at": 2e12, **said}


class Events:
    """Signed events of all sessions, each with a number of its own."""

    def __init__(self, server: Server) -> None:
        settings = _served.settings(server.home)
        self._secrets = [tokens.mint(settings, f"w{at}", 1).webhook_secret for at in range(SESSIONS)]

    def make(self, kind: str, number: int) -> bytes:
        session = number % SESSIONS
        raw = {
            "sessionId": f"w{session}", "type": kind, "timestamp": int(time.time() * 1000), "epoch": 1,
            "sequence": number, "data": _data(kind, number),
        }  # fmt: skip
        body, name, now = json.dumps(raw), f"evt_{kind}_{number}", datetime.now(tz=UTC)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(self._secrets[session]).sign(name, now, body),
        }
        return request_bytes("POST", "/webhook", headers, body.encode())


async def _fill(server: Server, numbers: range) -> None:
    """Make sessions, and messages that their workers are sending."""
    pipe = server.redis.pipeline()
    for at in range(SESSIONS):
        record: dict[Any, Any] = {"id": f"w{at}", "status": "connected", "phone": _phone(at), "epoch": 1, "version": 1}
        pipe.hset(f"session:{record['id']}", mapping=record)
        pipe.sadd("sessions:all", f"w{at}")
    for number in numbers:
        message, whatsapp_id = _message(number)
        at = number % SESSIONS
        record = {
            "id": message, "whatsapp_id": whatsapp_id, "phone": _phone(at), "session": f"w{at}",
            "to": f"97251{number % 10**7:07d}", "status": "sending", "accepted_at": int(time.time() * 1000),
        }  # fmt: skip
        pipe.hset(f"message:{message}", mapping=record)
    await pipe.execute()


def _phone(at: int) -> str:
    return f"97250{at:07d}"


async def _round(server: Server, events: Events, first: int) -> dict[str, dict[str, float]]:
    numbers = range(first, first + EVENTS)
    await _fill(server, numbers)
    found: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        requests = [events.make(kind, number) for number in numbers]
        calls = await server.redis_calls()
        cost: Callable[[], Any]
        with measured(server, EVENTS) as cost:
            await send_all(server.port, requests, CONNECTIONS)
        calls = await server.redis_calls() - calls
        found[kind] = {
            "server_cpu_ms": cost().server_ms,
            "redis_cpu_ms": cost().redis_ms,
            "redis_commands": calls / EVENTS,
        }
    return found


async def measure() -> dict[str, Any]:
    found: dict[str, list[dict[str, dict[str, float]]]] = {}
    for turn in range(ROUNDS):
        for name, tree in trees().items():
            async with served(tree, "workers") as server:
                events = Events(server)
                await _round(server, events, 1)  # warm up
                found.setdefault(name, []).append(await _round(server, events, 1_000_000 * (turn + 1)))
    return {
        kind: {
            name: {figure: quartiles([each[kind][figure] for each in every]) for figure in every[0][kind]}
            for name, every in found.items()
        }
        for kind in KINDS
    }


def main() -> None:
    result = asyncio.run(measure())
    keep("worker_events", {"events_per_round": EVENTS, "rounds": ROUNDS, "result": result})


if __name__ == "__main__":
    main()
