"""A second client believes the simulator: whatsmeow, which checks every signature and addresses everybody by LID."""

import base64
import importlib.util
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.simulator.whatsmeow.process import Whatsmeow, whatsmeow
from wa_orchestrator.simulator.world import World

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(importlib.util.find_spec("neonize") is None, reason="there is no neonize for this system"),
]
DANA, NOA, ADA = "972501111111", "972502222222", "972503333333"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[World]:
    async with World(proxies=1) as running:
        running.whatsapp.describe_account(DANA, migrated=True)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(world: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whatsmeow]:
    async with whatsmeow(world, DANA, tmp_path_factory.mktemp("whatsmeow")) as running:
        yield running


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
    texts = [entry["text"] for entry in world.whatsapp.inbox(NOA) if entry["from"] == entry["chat"] == DANA]
    assert texts == ["hello", "and again"]
    own = await world.whatsapp.send_text(DANA, ADA, "typed on the phone")
    copy = await client.until("message", id=own)
    assert (copy["text"], copy["fromMe"]) == ("typed on the phone", True)
    assert [event for event in client.events if event["kind"] == "undecryptable"] == []
    assert world.whatsapp.refusals() == []


async def test_whatsmeow_sends_and_fetches_files(world: World, client: Whatsmeow) -> None:
    picture = os.urandom(50_000)
    facts = {"mimetype": "image/png", "caption": "look"}
    sent = await client.do("file", to=ADA, kind="image", facts=facts, data=base64.b64encode(picture).decode())
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


async def test_whatsmeow_follows_the_link_of_a_group(world: World, client: Whatsmeow) -> None:
    group = await world.whatsapp.create_group(NOA, "Open", [ADA])
    found = world.whatsapp._state.groups[group]
    found.invite = "AbCdEfGhIjKlMnOpQrStUv"
    assert (await client.do("join", code=found.invite))["jid"] == group
    assert DANA in world.whatsapp.group_members(group)
