"""Logins to the simulated WhatsApp: linked, refused and unlinked devices."""

import asyncio
import base64
import secrets

import pytest
from websockets.exceptions import ConnectionClosed

from tests.simulator.wireclient import WireClient, World
from tests.waiting import until
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.protocol.binary_xml import node

DANA, NOA, UNKNOWN = "972501111111", "972502222222", "972503333333"


async def test_the_newest_connection_wins(world: World) -> None:
    older = await world.online(DANA)
    newer = WireClient(world)
    newer.noise, newer.phone, newer.device = older.noise, older.phone, older.device
    assert (await newer.login()).tag == "success"
    ending = await older.until("stream:error")
    assert ending.require("conflict").attr("type") == "replaced"
    assert "code" not in ending.attrs
    await older.say_blindly(NOA)
    await newer.ask("w:p", "get", node("ping"))
    (replaced,) = world.whatsapp.replacements()
    assert (replaced["phone"], replaced["device"]) == (older.phone, older.device)
    assert replaced["silentMs"] >= 0
    assert world.whatsapp.arrivals() == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [("ban", "403"), ("temporary_ban", "402"), ("outdated", "405"), ("unavailable", "503"), ("refuse_login", "401")],
)
async def test_a_login_is_refused_with_the_code_of_the_fault(world: World, kind: str, code: str) -> None:
    client = await world.link(DANA)
    await world.whatsapp.fault(kind, phone=DANA, seconds=60)
    answer = await client.login()
    assert (answer.tag, answer.attr("reason")) == ("failure", code)
    await world.whatsapp.clear_faults()
    assert (await client.login()).tag == "success"


async def test_a_login_with_another_key_is_refused(world: World) -> None:
    client = await world.link(DANA)
    client.noise = WireClient(world).noise
    assert (await client.login()).attr("reason") == "401"


async def test_an_unlinked_device_is_notified_and_cannot_log_in_again(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.unlink(DANA)
    ending = await client.until("stream:error")
    assert (ending.attr("code"), ending.require("conflict").attr("type")) == ("401", "device_removed")
    assert (await client.login()).attr("reason") == "401"
    with pytest.raises(SimulatorError):
        await world.whatsapp.unlink(DANA)


async def test_a_silent_server_neither_answers_nor_processes(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("silence", phone=DANA)
    await client.say_blindly(NOA)
    other = await world.online(NOA)
    await other.ask("w:p", "get", node("ping"))
    await world.whatsapp.clear_faults()
    await client.ask("w:p", "get", node("ping"))
    assert world.whatsapp.arrivals() == []


async def test_a_dropped_connection_is_reset_without_a_stanza(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("drop", phone=DANA)
    with pytest.raises(ConnectionClosed):
        await client.until("stream:error")
    await until(lambda: world.whatsapp.connections() == [], "nobody is connected")


async def test_an_expired_qr_is_refused(world: World) -> None:
    client = WireClient(world)
    qr = await client.register()
    await client.close()
    await until(lambda: world.whatsapp.connections() == [], "nobody is connected")
    with pytest.raises(SimulatorError) as refused:
        await world.whatsapp.scan(DANA, qr)
    assert refused.value.code == "QR_EXPIRED"
    for wrong in ("", "nonsense", qr.replace(",", ";"), "https://example.com/#a,b,c,d"):
        with pytest.raises(SimulatorError) as refused:
            await world.whatsapp.scan(DANA, wrong)
        assert refused.value.code == "BAD_QR"


async def test_a_fifth_device_is_refused(world: World) -> None:
    for _ in range(4):
        await world.link(DANA)
    with pytest.raises(SimulatorError) as refused:
        await world.whatsapp.scan(DANA, await WireClient(world).register())
    assert refused.value.code == "TOO_MANY_DEVICES"


async def test_a_qr_with_an_old_secret_is_refused_until_the_device_has_acked(world: World) -> None:
    client = WireClient(world)
    qr = await client.register()
    await world.whatsapp.fault("companion_reg_refresh")
    with pytest.raises(SimulatorError) as refused:
        await world.whatsapp.scan(DANA, qr)
    assert refused.value.code == "QR_RETIRED"
    notice = await client.until("notification", type="companion_reg_refresh")
    await client.send(node("ack", {"id": notice.attr("id"), "class": "notification", "to": "@s.whatsapp.net"}))
    old, client.adv = client.adv, secrets.token_bytes(32)
    await client.ask("w:p", "get", node("ping"))
    with pytest.raises(SimulatorError):
        await world.whatsapp.scan(DANA, qr)
    scan = asyncio.create_task(world.whatsapp.scan(DANA, _with_adv(qr, old, client.adv)))
    assert (await client.complete()).attr("code") == "515"
    await scan


def _with_adv(qr: str, old: bytes, new: bytes) -> str:
    return qr.replace(base64.b64encode(old).decode(), base64.b64encode(new).decode())


async def test_the_proxy_of_a_message_is_recorded() -> None:
    async with World(proxy_of=lambda port: f"proxy-of-{port > 0}") as world:
        client = await world.online(DANA)
        await client.say(NOA, "through it", "3EB001")
        await client.until("ack", id="3EB001")
        assert world.whatsapp.arrivals()[0]["proxy"] == "proxy-of-True"
        assert world.whatsapp.connections()[0]["proxy"] == "proxy-of-True"


async def test_a_passkey_is_requested_instead_of_completing_the_link(world: World) -> None:
    client = WireClient(world)
    qr = await client.register()
    await world.whatsapp.fault("passkey", phone=DANA, times=1)
    await world.whatsapp.scan(DANA, qr)
    notice = await client.until("notification", type="passkey_prologue_request")
    assert b'"rpId":"whatsapp.com"' in notice.child_bytes("passkey_request_options")
    assert world.whatsapp.devices(DANA) == []


async def test_a_device_that_disconnects_while_linking_is_an_error_at_once(world: World) -> None:
    client = WireClient(world)
    scan = asyncio.create_task(world.whatsapp.scan(DANA, await client.register()))
    await client.until("iq", type="set")
    await client.close()
    with pytest.raises(SimulatorError) as refused:
        await scan
    assert refused.value.code == "LINK_FAILED"
