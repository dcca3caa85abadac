"""Linking: by QR and by code, with a secret that is renewed, a passkey that is demanded, and a version that is refused."""

import time

import pytest

from tests.waiting import promised
from tests.worker.harness import Rig, new_phone
from wa_orchestrator.simulator.errors import SimulatorError

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_scan_that_renews_the_secret_shows_a_new_qr_that_links(rig: Rig) -> None:
    session = rig.session()
    await session.start()
    old = await session.event("QR_CODE")
    seen = len(session.station.events)
    await rig.world.whatsapp.fault("companion_reg_refresh", phone=session.phone)
    with pytest.raises(SimulatorError) as lost:
        await rig.world.whatsapp.scan(session.phone, old["data"]["qr"])
    assert lost.value.code == "QR_RETIRED"
    new = await session.event("QR_CODE", after=seen)
    assert "renewed" not in old["data"]
    assert new["data"]["renewed"] is True  # the person is asked to scan once more
    assert new["data"]["qr"].split(",")[3] != old["data"]["qr"].split(",")[3]
    await rig.world.whatsapp.scan(session.phone, new["data"]["qr"])
    await session.event("CONNECTED")


async def test_a_demanded_passkey_is_named_within_a_second(rig: Rig) -> None:
    session = rig.session()
    await session.start()
    qr = await session.event("QR_CODE")
    await rig.world.whatsapp.fault("passkey", phone=session.phone)
    asked_at = time.monotonic()
    await rig.world.whatsapp.scan(session.phone, qr["data"]["qr"])
    await session.event("AUTH_FAILURE", reason="PASSKEY_REQUIRED")
    assert time.monotonic() - asked_at < promised(1)
    assert await session.worker.ended() == 34


async def test_a_worker_started_for_a_code_shows_one_and_links_when_it_is_typed(rig: Rig) -> None:
    session = rig.session()
    await session.start(PAIRING_PHONE=session.phone)
    code = (await session.event("PAIRING_CODE"))["data"]["code"]
    assert len(code) == 8
    await rig.world.whatsapp.enter_code(session.phone, code)
    await session.event("CONNECTED", phoneNumber=session.phone)
    assert all(event["type"] != "QR_CODE" for event in session.station.events)


async def test_a_code_asked_for_by_command_links_and_a_linked_device_gives_none(rig: Rig) -> None:
    session = rig.session()
    await session.start()
    await session.event("QR_CODE")
    command = await rig.server.command(session.id, "pairing_code", phone=session.phone)
    result = await rig.server.result(session.id, command)
    assert isinstance(result, dict)
    await rig.world.whatsapp.enter_code(session.phone, result["code"])
    await session.event("CONNECTED", phoneNumber=session.phone)
    again = await rig.server.command(session.id, "pairing_code", phone=session.phone)
    assert await rig.server.result(session.id, again) == {"ok": False, "code": "ALREADY_LINKED"}


async def test_a_code_that_was_never_typed_leaves_no_trace_and_the_next_start_can_link(rig: Rig) -> None:
    session = rig.session()
    await session.start(PAIRING_PHONE=new_phone())
    await session.event("PAIRING_CODE")
    await session.worker.kill()
    seen = len(session.station.events)
    await session.start()
    qr = await session.event("QR_CODE", after=seen)
    await rig.world.whatsapp.scan(session.phone, qr["data"]["qr"])
    await session.event("CONNECTED", after=seen)


async def test_a_phone_that_repeats_its_step_of_a_pairing_by_code_is_linked_with_the_last_secret(rig: Rig) -> None:
    session = rig.session()
    await session.start(PAIRING_PHONE=session.phone)
    code = (await session.event("PAIRING_CODE"))["data"]["code"]
    await rig.world.whatsapp.fault("repeat_hello", phone=session.phone, times=2)
    await rig.world.whatsapp.enter_code(session.phone, code)
    await session.event("CONNECTED", phoneNumber=session.phone)


async def test_a_step_for_another_code_is_ignored(rig: Rig) -> None:
    session = rig.session()
    await session.start(PAIRING_PHONE=session.phone)
    code = (await session.event("PAIRING_CODE"))["data"]["code"]
    await rig.world.whatsapp.fault("foreign_hello", phone=session.phone)
    await rig.world.whatsapp.enter_code(session.phone, code)
    await session.event("CONNECTED", phoneNumber=session.phone)
    assert any("linking.step_ignored" in line for line in session.worker.raw)


async def test_a_worker_uses_the_revision_that_another_session_was_accepted_with(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    await session.worker.terminate()
    newer = rig.world.whatsapp.revision + 1000
    await rig.world.whatsapp.fault("outdated", phone=session.phone, below=newer)
    await session.start()  # the page names an older one
    refused = await session.event("DISCONNECTED", reason="CLIENT_OUTDATED")
    assert refused["data"]["revision"] == rig.world.whatsapp.revision
    connected = await session.restart(WHATSAPP_REVISION=str(newer))
    assert connected["data"]["revision"] == newer


async def test_a_refused_version_is_looked_up_once_more_and_then_reported(rig: Rig) -> None:
    session = rig.session()
    session.proxy = 2  # workers of other tests live on and dial by the first
    await session.link()
    await session.worker.terminate()
    await rig.world.whatsapp.fault("outdated", phone=session.phone)
    proxy = rig.world.pool.find("proxy-3")
    before = len(proxy.describe()["connections"])
    await session.start()
    await session.event("DISCONNECTED", reason="CLIENT_OUTDATED", code=405, willReconnect=False)
    assert await session.worker.ended() == 35
    dials = len(proxy.describe()["connections"]) - before
    assert dials == 3  # two logins and one look-up, not a loop


async def test_a_version_refused_once_connects_with_the_newer_one(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    await session.worker.terminate()
    await rig.world.whatsapp.fault("outdated", phone=session.phone, times=1)
    await session.restart()


async def test_a_pairing_for_another_device_is_refused_in_words_and_the_next_scan_links(rig: Rig) -> None:
    session = rig.session()
    await session.start()
    await rig.world.whatsapp.fault("bad_pairing", phone=session.phone, times=1)
    first = await session.event("QR_CODE")
    seen = len(session.station.events)
    with pytest.raises(SimulatorError, match="401 not-authorized"):
        await rig.world.whatsapp.scan(session.phone, first["data"]["qr"])
    assert rig.world.whatsapp.devices(session.phone) == []
    await rig.world.whatsapp.scan(session.phone, (await session.event("QR_CODE", after=seen))["data"]["qr"])
    await session.event("CONNECTED", phoneNumber=session.phone)
