"""What was recorded of a message's way happens again on the simulator."""

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.simulator.wireclient import WireClient, World
from wa_orchestrator.domain.workers import reproduction
from wa_orchestrator.simulator.whatsapp.scenarios import Attempt

DANA, NOA, TAL = "972501111111", "972502222222", "972503333333"
TIMELINE = [("sending", ""), ("queued", "SERVER_ERROR"), ("sending", ""), ("sent", ""), ("read", "")]


def recorded(timeline: list[tuple[str, str]]) -> list[Attempt]:
    message: dict[str, Any] = {"timeline": [{"status": status, "note": note} for status, note in timeline]}
    attempts = reproduction.scenario(message)["attempts"]
    return [Attempt(one["faults"], one["read"]) for one in attempts]


async def answer(client: WireClient, to: str, message_id: str) -> str:
    await client.say(to, "hello", message_id)
    return (await client.until("ack", id=message_id)).attr("error")


async def test_each_attempt_meets_what_the_recorded_one_met(world: World) -> None:
    client = await world.online(DANA)
    world.whatsapp.play(DANA, NOA, recorded(TIMELINE))
    assert await answer(client, TAL, "3EB0OTHER") == "", "somebody else's message"
    assert await answer(client, NOA, "3EB0PLAYED") == "500"
    assert await answer(client, NOA, "3EB0NEXT") == "", "another message to the same person"
    assert await answer(client, NOA, "3EB0PLAYED") == ""
    receipt = await client.until("receipt", type="read")
    assert [receipt.attr("id"), receipt.require("list").require("item").attr("id")] == ["3EB0NEXT", "3EB0PLAYED"]
    assert await answer(client, NOA, "3EB0PLAYED") == "", "one more attempt than was recorded"


async def test_a_connection_that_was_lost_is_lost_again(world: World) -> None:
    client = await world.online(DANA)
    world.whatsapp.play(DANA, NOA, recorded([("sending", ""), ("queued", "CONNECTION_LOST"), ("sending", "")]))
    with pytest.raises(ConnectionClosed):
        await answer(client, NOA, "3EB0PLAYED")
    assert world.whatsapp.arrivals() == []
    await client.come_online()
    assert await answer(client, NOA, "3EB0PLAYED") == ""


async def test_an_attempt_that_was_refused_under_both_names_is_refused_twice(world: World) -> None:
    client = await world.online(DANA)
    world.whatsapp.play(DANA, NOA, recorded([("sending", ""), ("failed", "STALE_DEVICES"), ("sending", "")]))
    assert await answer(client, NOA, "3EB0PLAYED") == "479"
    assert await answer(client, NOA, "3EB0PLAYED") == "479", "once more within the attempt"
    assert await answer(client, NOA, "3EB0PLAYED") == ""
