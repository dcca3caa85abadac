"""The demo: names of the fleet, its patience on a slow machine, and recipients that read their messages."""

import asyncio
import json
from types import SimpleNamespace

import httpx
import pytest

from wa_orchestrator.simulator import demo

#: What takes seconds elsewhere.
SLOW_S = 240.0


def test_every_member_of_a_fleet_has_a_name_of_its_own() -> None:
    fleet = [demo.member(number) for number in range(20)]
    assert len({session_id for session_id, _, _ in fleet}) == 20
    assert len({name for _, name, _ in fleet}) == 20


async def test_a_recipient_reads_a_message_once_and_nobody_reads_their_own() -> None:
    arrivals = [
        {"n": 1, "from": "97201", "to": "97202", "repeat": False},
        {"n": 2, "from": "97201", "to": "97202", "repeat": True},
        {"n": 3, "from": "97203", "to": "97203", "repeat": False},
        {"n": 4, "from": "97203", "to": "120363@g.us", "repeat": False},
    ]
    read: list[tuple[str, str]] = []

    def world(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=arrivals[int(request.url.params["after"]) :])
        read.append((request.url.path, json.loads(request.content)["from"]))
        return httpx.Response(200, json={})

    readers = demo.MessageReaders("http://world", takes_s=lambda: 0)
    async with httpx.AsyncClient(base_url="http://world", transport=httpx.MockTransport(world)) as client:
        for _ in range(2):
            async with asyncio.TaskGroup() as tasks:
                await readers.step(client, tasks)
    assert read == [("/phones/97202/read", "97201")]


def test_reading_takes_a_few_seconds() -> None:
    assert all(1 < demo.reading_delay_s() < 10 for _ in range(100))


class SlowServer:
    """Links a session and shows a message as read after some minutes; a test's sleep takes no time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/qr"):
            return httpx.Response(404)
        is_message, is_over = "/messages/" in request.url.path, self.now_s > SLOW_S
        return httpx.Response(200, json={"status": ("read" if is_message else "connected") if is_over else "pending"})


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> demo.DemoFleet:
    server = SlowServer()
    monkeypatch.setattr(demo, "time", SimpleNamespace(monotonic=lambda: server.now_s))
    monkeypatch.setattr(demo, "asyncio", SimpleNamespace(sleep=server.sleep))
    made = demo.DemoFleet("http://server", "key", "http://world", 1)
    made._api = httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(server.answer))
    return made


async def test_a_phone_that_takes_minutes_to_link_is_waited_for(fleet: demo.DemoFleet) -> None:
    assert await fleet._link("support", "972500000001")


async def test_a_message_that_takes_minutes_to_be_read_is_waited_for(fleet: demo.DemoFleet) -> None:
    assert await fleet._read(["m_1"]) == 1
