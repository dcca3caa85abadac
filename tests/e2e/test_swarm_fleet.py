"""Real workers on a swarm of three nodes, while nodes are partitioned, drained, killed, and an engine's daemon dies.

`SWARM=full` has 30 workers; otherwise the same in small. Each node is an engine in a network namespace; the server, its Redis
and the simulated world are in the namespace of the switch between them.
"""

import asyncio
import base64
import ctypes
import os
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.chaos import Record
from tests.e2e.product import Product, home_of_its_own
from tests.processes import PRODUCT, free_port
from tests.runner import swarm_nodes
from tests.runner.images import packed_worker
from tests.runner.swarm_nodes import SWITCH_ADDRESS, Node
from tests.waiting import promised, until

pytestmark = [pytest.mark.docker, pytest.mark.slow]

WORKERS = 30 if os.environ.get("SWARM") == "full" else 4
BACK_WITHIN_S, AWAY_WITHIN_S = 30.0, 5.0
TIME_SCALE, FENCE_MS = 5, 10_000
#: A worker counts from the last answer of the server, and WhatsApp hears of it a little later.
_CLOCKS_APART_MS = 2_000
_CLONE_NEWNET = 0x40000000
#: One is scanned while the engine starts the next.
_LINKED_AT_ONCE = 3
#: Accepted messages of a session that have not arrived yet: it always has something to send.
_AHEAD = 2
_LOOK_S = 0.25
#: A drain moves two sessions at a time, and each takes half a minute where everything shares two busy cores.
_BACK_AT_LAST_S = 1200
_RECIPIENT = "972522200001"
_HAD = {"sent", "delivered", "read"}


@contextmanager
def inside(space: str) -> Iterator[None]:
    """Be in a network namespace, with everything that is started or opened meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    own, other = (os.open(path, os.O_RDONLY) for path in ("/proc/thread-self/ns/net", f"/run/netns/{space}"))

    def enter(which: int) -> None:
        assert libc.setns(which, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())

    enter(other)
    try:
        yield
    finally:
        enter(own)
        os.close(own)
        os.close(other)


@dataclass
class SwarmProduct(Product):
    """The product whose workers are services of a swarm, and what is seen of its fleet."""

    accepted: dict[str, str] = field(default_factory=dict)
    seen: list[dict[str, Any]] = field(default_factory=list)
    ends: bool = False

    async def _simulator(self) -> None:
        command = [*PRODUCT, "simulate", "--json", "--data-dir", str(self.home / "world"), "--name", SWITCH_ADDRESS]
        part = self._part("simulator", [*command, "--proxies", str(self.proxies)], dict(os.environ))
        assert part.program is not None
        ready = await asyncio.to_thread(part.program.said, r'^{"control".*')
        self.world = httpx.Response(200, text=ready[0]).json()

    async def fleet(self) -> list[dict[str, Any]]:
        """All sessions as the API shows them, each with its worker; none while it does not answer."""
        with suppress(httpx.HTTPError):
            return [
                (await self.api.get(f"/api/sessions/w{number}")).raise_for_status().json() for number in range(WORKERS)
            ]
        return []

    async def watch(self) -> None:
        """Note what arrives."""
        while not self.ends:
            with suppress(httpx.HTTPError):
                self.seen = await self.arrivals()  # all: what was said is added when a phone has decrypted it
            await asyncio.sleep(_LOOK_S)

    async def send(self, session: str) -> None:
        """Let a session send one message after the other until the end."""
        number = 0
        while not self.ends:
            text = f"{session} says {number:05d}"
            with suppress(httpx.HTTPError):
                body = {"to": _RECIPIENT, "message": text, "sessionId": session}
                answer = await self.door.post("/api/v1/send", json=body, headers={"Idempotency-Key": text})
                assert answer.status_code in (202, 429, 503), answer.text
                if answer.status_code == httpx.codes.ACCEPTED:
                    self.accepted[text] = str(answer.json()["messageId"])
                    number += 1
            await until(lambda: self.ends or self._waiting(session) < _AHEAD, f"messages of {session} arrive", 600)

    def _waiting(self, session: str) -> int:
        prefix = f"{session} says "
        arrived = {each["text"] for each in self.seen if str(each["text"]).startswith(prefix)}
        return sum(text.startswith(prefix) for text in self.accepted) - len(arrived)

    async def back(self, *, without: frozenset[str]) -> float:
        """Wait until every session is connected, on none of these nodes; return how long that took."""
        begun = time.monotonic()

        async def all_back() -> bool:
            fleet = await self.fleet()
            return len(fleet) == WORKERS and all(
                each["status"] == "connected" and each["worker"]["node"] not in without for each in fleet
            )

        await until(all_back, "every session is back", _BACK_AT_LAST_S)
        return time.monotonic() - begun


@asynccontextmanager
async def running_swarm() -> AsyncIterator[tuple[list[Node], SwarmProduct]]:
    with swarm_nodes.engines(3) as nodes, inside(nodes[0].switch), home_of_its_own() as home:
        swarm_nodes._ip("link", "set", "lo", "up")
        image = await swarm_nodes.join(nodes, await asyncio.to_thread(packed_worker))
        worker_port = free_port()
        settings = {
            "RUNNER": "swarm", "DOCKER_HOST": nodes[0].url, "DOCKER_IMAGE": image, "CLUSTER_NAME": "fleet",
            "CREDENTIALS": "server", "AUTH_KEY": base64.b64encode(os.urandom(32)).decode(), "WORKER_MEMORY_MB": "160",
            "WORKER_HOST": SWITCH_ADDRESS, "WORKER_PORT": str(worker_port),
            "WORKER_URL": f"http://{SWITCH_ADDRESS}:{worker_port}",
            # Pauses are shortened, and the fence is as long as ever.
            "TIME_SCALE": str(TIME_SCALE), "FENCE_MS": str(TIME_SCALE * FENCE_MS), "COLD_PER_DAY": "5000", "COLD_PER_MINUTE": "60",
            "COLD_HOURS": "00:00-00:00", "COLD_PAUSE_MIN_MS": "5000", "COLD_PAUSE_MAX_MS": "10000",
            "RATE_LIMIT_PER_MINUTE": "600000", "API_RATE_PER_MINUTE": "600000", "PING_TIMEOUT_MS": "400000", "MONITOR_INTERVAL_MS": "10000",
        }  # fmt: skip
        async with SwarmProduct(home, -(-WORKERS // 4) + 1, settings) as running:
            yield nodes, running


@pytest.mark.timeout(3600)
async def test_a_fleet_on_three_nodes_loses_nothing_while_nodes_and_engines_die(record_property: Record) -> None:
    phones = {f"w{n}": f"9725013{n:05d}" for n in range(WORKERS)}
    async with running_swarm() as (nodes, running):
        await _link_all(running, phones)
        tasks = [asyncio.create_task(running.watch()), *(asyncio.create_task(running.send(each)) for each in phones)]
        await until(lambda: len(running.seen) >= 2 * WORKERS, "the fleet sends", 300)
        figures = await _campaign(nodes, running)
        print(figures, "load", os.getloadavg())
        running.ends = True
        await asyncio.gather(*tasks)
        statuses = await until(lambda: _statuses(running), "every message has ended", 600)
        running.seen = await running.arrivals()
        answers = await _answers(running, phones)
        reasons = [each.get("reason") for each in await running.fleet()]
        replaced = (await running.control.get("/replacements")).raise_for_status().json()
    for name, value in figures.items():
        record_property(name, round(value, 1))
    assert set(statuses.values()) <= _HAD, Counter(statuses.values())
    _check_arrivals(running)
    # Of a node that was cut off, connections stay open, and nobody speaks on them once the fence has fallen.
    spoke = [each for each in replaced if each["silentMs"] < FENCE_MS - _CLOCKS_APART_MS]
    assert spoke == [], "two workers of one device spoke at once"
    assert "REPLACED_ELSEWHERE" not in reasons
    assert answers == {session: f"hello {session}" for session in phones}, "a message could not be decrypted"
    assert figures.pop("longest_move_s") < promised(AWAY_WITHIN_S)
    assert max(figures.values()) < promised(BACK_WITHIN_S)


async def _link_all(running: SwarmProduct, phones: Mapping[str, str]) -> None:
    places = asyncio.Semaphore(_LINKED_AT_ONCE)

    async def link(session: str, phone: str) -> None:
        async with places:
            await running.link(session, phone)

    async with asyncio.TaskGroup() as group:
        for each in phones.items():
            group.create_task(link(*each))


async def _campaign(nodes: list[Node], running: SwarmProduct) -> dict[str, float]:
    """Let nodes go one after the other and come back; return how long sessions were away."""
    _, second, third = nodes
    # A daemon that dies leaves its workers running, a partition too: both are fenced before others start.
    second.kill()
    third.unplug()
    figures = {"daemon_killed_and_partition_s": await running.back(without=frozenset({"node-2", "node-3"}))}
    second.start()
    third.plug()
    await until(lambda: _are_ready(running, "node-2", "node-3"), "both nodes are back")
    await running.api.post("/api/v1/nodes/node-1/drain")
    await running.back(without=frozenset({"node-1"}))
    figures["longest_move_s"] = (
        max((each["lastMove"]["awayMs"] for each in await running.fleet() if each["lastMove"]), default=0) / 1000
    )
    await running.api.post("/api/v1/nodes/node-1/activate")
    third.power_off()
    figures["node_killed_s"] = await running.back(without=frozenset({"node-3"}))
    return figures


async def _are_ready(running: SwarmProduct, *names: str) -> bool:
    with suppress(httpx.HTTPError):
        told = (await running.api.get("/api/v1/nodes")).json()
        return all(each["state"] == "ready" for each in told["nodes"] if each["name"] in names)
    return False


def _check_arrivals(running: SwarmProduct) -> None:
    shown = {(each["text"], each["id"]) for each in running.seen if each["text"] in running.accepted}
    assert Counter(text for text, _ in shown) == Counter(list(running.accepted)), "lost, or shown twice"
    order: dict[str, list[str]] = defaultdict(list)
    for each in running.seen:
        session, said, _ = str(each["text"]).partition(" says ")
        if said and each["text"] not in order[session]:
            order[session].append(each["text"])
    assert all(texts == sorted(texts) for texts in order.values()), "out of order"


async def _statuses(running: SwarmProduct) -> dict[str, str] | None:
    """Return how every message ended, or None while one has not."""
    found = {}
    for text, message in running.accepted.items():
        answer = await running.door.get(f"/api/v1/messages/{message}")
        assert answer.is_success, answer.text
        found[text] = str(answer.json()["status"])
        if found[text] in ("queued", "scheduled", "sending"):
            return None
    return found


async def _answers(running: SwarmProduct, phones: Mapping[str, str]) -> dict[str, str]:
    """Let the person write to every session, and return what each has read of it."""
    for session, phone in phones.items():
        await running.control.post(f"/phones/{_RECIPIENT}/say", json={"to": phone, "text": f"hello {session}"})

    async def read() -> dict[str, str] | None:
        with suppress(httpx.HTTPError):
            told = (await running.api.get("/api/v1/conversations", params={"limit": 200})).raise_for_status().json()
            last = {each["sessionId"]: each["lastMessage"]["text"] for each in told["conversations"]}
            return last if all(str(last.get(each)).startswith("hello") for each in phones) else None
        return None

    return await until(read, "every session has read its answer", 300)
