"""The demo: names of the fleet, and recipients that read their messages."""

import asyncio
import json

import httpx

from wa_orchestrator.simulator import demo


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
