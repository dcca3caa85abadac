"""A second client believes the simulator: whatsmeow, which checks every signature and addresses everybody by LID."""

import asyncio
import base64
import importlib.util
import itertools
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.waiting import PATIENCE_S
from wa_orchestrator.simulator.world import World

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(importlib.util.find_spec("neonize") is None, reason="there is no neonize for this system"),
]
DANA, NOA, ADA = "972501111111", "972502222222", "972503333333"
CLIENT = Path(__file__).with_name("client.py")
_numbers = itertools.count(1)


class Whatsmeow:
    """The client's process and what it has told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Return the event of that kind with these fields, told already or to come."""
        position = 0
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for event in self.events[position:]:
                    position += 1
                    if event["kind"] == kind and all(event.get(name) == value for name, value in fields.items()):
                        return event
                line = await self.process.stdout.readline()
                assert line, "whatsmeow has ended"
                self.events.append(json.loads(line))
                assert self.events[-1]["kind"] != "failed", self.events[-1]

    async def do(self, what: str, **fields: Any) -> dict[str, Any]:
        number = next(_numbers)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, "n": number, **fields}).encode() + b"\n")
        return await self.until("done", n=number)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[World]:
    async with World(proxies=1) as running:
        running.whatsapp.describe_account(DANA, migrated=True)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(world: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whatsmeow]:
    environment = {
        **os.environ,
        "CLIENT_DIR": str(tmp_path_factory.mktemp("whatsmeow")),
        "NOISE_ROOT": world.whatsapp.noise_root.hex(),
        "PROXY_URL": world.proxies[0],
        "SSL_CERT_FILE": str(world.ca_file),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, CLIENT, env=environment, limit=1 << 20, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        running = Whatsmeow(process)
        code = await running.until("qr")
        await world.whatsapp.scan(DANA, code["qr"])
        await running.until("connected")
        yield running
    finally:
        process.kill()
        await process.wait()


async def test_whatsmeow_links_through_the_proxy_and_dials_nothing_else(world: World, client: Whatsmeow) -> None:
    assert len(world.whatsapp.devices(DANA)) == 1
    assert {connection["proxy"] for connection in world.whatsapp.connections()} == {"proxy-1"}


async def test_whatsmeow_finds_a_number_by_its_lid(world: World, client: Whatsmeow) -> None:
    ((asked, name, is_in),) = (await client.do("look up", phone=f"+{NOA}"))["found"]
    assert (asked, is_in) == (f"+{NOA}", True)
    assert name.endswith("@lid")


async def test_whatsmeow_and_a_phone_talk_and_no_message_is_undecryptable(world: World, client: Whatsmeow) -> None:
    sent = await client.do("send", to=NOA, text="hello")
    await client.until("receipt", ids=[sent["id"]])
    await world.whatsapp.send_text(NOA, DANA, "hello yourself")
    came = await client.until("message", text="hello yourself")
    assert (came["sender"].endswith("@lid"), came["alt"]) == (True, f"{NOA}@s.whatsapp.net")
    await client.do("send", to=NOA, text="and again")
    texts = [entry["text"] for entry in world.whatsapp.inbox(NOA) if not entry["fromMe"]]
    assert texts == ["hello", "and again"]
    own = await world.whatsapp.send_text(DANA, ADA, "typed on the phone")
    copy = await client.until("message", id=own)
    assert (copy["text"], copy["fromMe"]) == ("typed on the phone", True)
    assert [event for event in client.events if event["kind"] == "undecryptable"] == []
    assert world.whatsapp.refusals() == []


async def test_whatsmeow_sends_and_fetches_files(world: World, client: Whatsmeow) -> None:
    picture = os.urandom(50_000)
    sent = await client.do("image", to=ADA, caption="look", data=base64.b64encode(picture).decode())
    assert world.whatsapp.media_of(ADA, sent["id"]) == picture
    theirs = await world.whatsapp.send_media(ADA, DANA, "image", picture[::-1], "image/png", "and mine")
    await client.until("message", id=theirs, text="and mine")
    fetched = await client.do("download", id=theirs)
    assert base64.b64decode(fetched["data"]) == picture[::-1]


@pytest.mark.parametrize("mode", ["lid", "pn"])
async def test_whatsmeow_talks_in_groups_of_both_kinds(world: World, client: Whatsmeow, mode: str) -> None:
    group = await world.whatsapp.create_group(NOA, "Family", [DANA, ADA], mode)
    sent = await client.do("send", to=group, text=f"all of you, {mode}")
    assert [entry["text"] for entry in world.whatsapp.inbox(ADA) if entry["id"] == sent["id"]] == [
        f"all of you, {mode}"
    ]
    await world.whatsapp.send_text(NOA, group, f"yes, {mode}")
    assert (await client.until("message", text=f"yes, {mode}"))["isGroup"]
    assert world.whatsapp.refusals() == []


async def test_a_group_made_by_whatsmeow_goes_by_lids(world: World, client: Whatsmeow) -> None:
    group = (await client.do("group", subject="Mine", members=[NOA]))["jid"]
    await client.do("send", to=group, text="welcome")
    assert "welcome" in [entry["text"] for entry in world.whatsapp.inbox(NOA) if entry["chat"] == group]
