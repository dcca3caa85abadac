"""Linked devices survive a restart of the simulator."""

from pathlib import Path

from tests.simulator.wireclient import World
from wa_orchestrator.simulator.protocol.binary_xml import node

DANA, NOA = "972501111111", "972502222222"


async def test_a_device_logs_in_again_after_the_simulator_was_restarted(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        client = await world.online(DANA)
        count = (await client.ask("encrypt", "get", node("count"))).require("count").attr("value")
        group = await world.whatsapp.create_group(DANA, "Friends", [NOA])
    async with World(tmp_path) as world:
        client.world = world
        await client.come_online()
        assert (await client.ask("encrypt", "get", node("count"))).require("count").attr("value") == count
        await world.whatsapp.send_text(NOA, DANA, "still here")
        assert await client.next_text() == "still here"
        await client.say(NOA, "me too", "3EB001")
        await client.until("ack", id="3EB001")
        assert world.whatsapp.arrivals()[0]["text"] == "me too"
        metadata = await client.ask("w:g2", "get", node("query", {"request": "interactive"}), to=group)
        assert metadata.require("group").attr("subject") == "Friends"


async def test_pending_stanzas_survive_a_restart(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        client = await world.online(DANA)
        await client.close()
        await world.whatsapp.send_text(NOA, DANA, "for later")
    async with World(tmp_path) as world:
        client.world = world
        await client.come_online()
        assert await client.next_text() == "for later"


async def test_a_device_that_was_unlinked_stays_unlinked(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        client = await world.online(DANA)
        await world.whatsapp.unlink(DANA)
    async with World(tmp_path) as world:
        client.world = world
        assert (await client.login()).attr("reason") == "401"


async def test_another_state_directory_has_no_devices(tmp_path: Path) -> None:
    async with World(tmp_path / "one") as world:
        client = await world.online(DANA)
    async with World(tmp_path / "two") as world:
        client.world = world
        assert (await client.login()).attr("reason") == "401"
