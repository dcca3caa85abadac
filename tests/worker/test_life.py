"""A device's whole life, as the outside world sees it."""

import asyncio

import pytest

from tests.worker.harness import Rig, new_phone

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_scanned_device_connects_and_says_who_it_is(rig: Rig) -> None:
    session = rig.session()
    connected = await session.link()
    assert connected["data"]["phoneNumber"] == session.phone
    assert connected["data"]["lid"].endswith("@lid")
    assert connected["epoch"] == 1


async def test_a_text_is_acknowledged_only_when_whatsapp_has_it_and_keeps_the_given_id(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    friend = new_phone()
    message = await session.say(friend, "good morning")
    ack = await rig.server.acked(message)
    assert ack["whatsappId"] == message["whatsappId"]
    [arrival] = session.arrivals(to=friend)
    assert (arrival["id"], arrival["text"]) == (message["whatsappId"], "good morning")
    await session.event("MESSAGE_SENT", messageId=message["messageId"])
    await session.event("MESSAGE_STATUS", whatsappId=message["whatsappId"], status="delivered")
    await rig.world.whatsapp.read(friend)
    await session.event("MESSAGE_STATUS", whatsappId=message["whatsappId"], status="read")


async def test_a_restart_from_disk_needs_no_scan_and_keeps_the_identity(rig: Rig) -> None:
    session = rig.session()
    first = await session.link()
    assert await session.worker.terminate() == 0
    second = await session.restart()
    assert second["data"]["fingerprint"] == first["data"]["fingerprint"]
    message = await session.say(new_phone(), "still me")
    await rig.server.acked(message)
    await asyncio.sleep(0)
