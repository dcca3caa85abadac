"""The demo: a fleet with names of its own, people who read what they get, and a greeting that can be followed."""

import asyncio
import json
import signal
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from tests.processes import PRODUCT, Program, bare_environment
from wa_orchestrator.runner import process_identity
from wa_orchestrator.server import banner
from wa_orchestrator.settings import Settings
from wa_orchestrator.simulator import demo


def test_every_member_of_a_fleet_has_a_name_of_its_own() -> None:
    fleet = [demo.member(number) for number in range(20)]
    assert len({session_id for session_id, _, _ in fleet}) == 20
    assert len({name for _, name, _ in fleet}) == 20


async def test_whoever_gets_a_message_reads_it_once_and_nobody_reads_their_own() -> None:
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
            async with asyncio.TaskGroup() as people:
                await readers.step(client, people)
    assert read == [("/phones/97202/read", "97201")]


def test_people_take_a_human_while() -> None:
    assert all(1 < demo.reading_delay_s() < 10 for _ in range(100))


@pytest.mark.parametrize(
    ("program", "directory", "line"),
    [
        (".venv/bin/wa-orchestrator", "data", ".venv/bin/wa-orchestrator secrets"),
        (".venv/bin/wa-orchestrator", ".cache/demo", ".venv/bin/wa-orchestrator secrets --data-dir .cache/demo"),
        ("/usr/local/bin/wa-orchestrator", "data", "wa-orchestrator secrets"),
        ("wa-orchestrator", "/srv/two words", "wa-orchestrator secrets --data-dir '/srv/two words'"),
        ("-c", "data", "wa-orchestrator secrets"),
    ],
)
def test_a_command_is_told_as_it_can_be_typed(program: str, directory: str, line: str) -> None:
    here = Path("/home/dana/wa")
    assert banner.command_line("secrets", here / directory, program, here) == line


def test_the_greeting_has_the_link_on_a_line_of_its_own_and_no_secret() -> None:
    settings = Settings(api_key=SecretStr("canary-kZ8-vQ2_mN5xR7p"), bind_host="0.0.0.0")
    said = banner.render(settings, "http://127.0.0.1:3001/enter#x", world={"control": "http://127.0.0.1:9"})
    assert "http://127.0.0.1:3001/enter#x" in [line.strip() for line in said.splitlines()]
    assert "is ready: http://127.0.0.1:3001\n" in said
    assert "canary" not in said


def test_a_terminal_that_is_closed_ends_the_server_and_what_it_started(tmp_path: Path) -> None:
    command = (*PRODUCT, "up", "--data-dir", str(tmp_path / "d"), "--port", "0", "--gateway-port", "0")
    server = Program(command, log=tmp_path / "log", env=bare_environment(), cwd=tmp_path)
    server.said("There are no proxies yet. Add one at http://")
    server.said("Ctrl-C stops")
    assert server.end(signal.SIGHUP) == 0
    mark = str(tmp_path / "d").encode()
    left = [pid for pid in process_identity.pids() if mark in _command_line(pid)]
    assert left == []


def _command_line(pid: int) -> bytes:
    try:
        return (process_identity.PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""
