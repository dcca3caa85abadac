"""Linking with a passkey: the whole ceremony, by QR and by code, and every way in which it goes wrong."""

import asyncio
import json
from typing import Any

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session
from wa_orchestrator.simulator.whatsapp.stanzas.passkeys import Ceremony

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _asked(rig: Rig, by: str = "qr", **fault: Any) -> tuple[Session, dict[str, Any]]:
    """A session whose phone has scanned or entered a code, and WhatsApp's request."""
    session = rig.session(PASSKEY_LINKING="true")
    await rig.world.whatsapp.fault("passkey", phone=session.phone, times=1, **fault)
    if by == "qr":
        await session.start()
        await rig.world.whatsapp.scan(session.phone, (await session.event("QR_CODE"))["data"]["qr"])
    else:
        await session.start(PAIRING_PHONE=session.phone)
        code = (await session.event("PAIRING_CODE"))["data"]["code"]
        await rig.world.whatsapp.enter_code(session.phone, code)
    return session, (await session.event("PASSKEY", stage="required"))["data"]


async def _answer(rig: Rig, session: Session, asked: dict[str, Any], **how: Any) -> Any:
    """Sign at one's own screen, and give the answer to the worker."""
    challenge = how.pop("challenge", json.loads(asked["options"])["challenge"])
    assertion = rig.world.whatsapp.passkey(how.pop("signer", session.phone)).sign(challenge, **how)
    command = await rig.server.command(session.id, "passkey", assertion=json.dumps(assertion))
    return await rig.server.result(session.id, command)


def _ceremony(rig: Rig, session: Session) -> Ceremony:
    return rig.world.whatsapp.ceremony(session.phone)


@pytest.mark.parametrize("by", ["qr", "code"])
async def test_a_phone_with_a_passkey_is_linked_after_its_owner_signed(rig: Rig, by: str) -> None:
    session, asked = await _asked(rig, by=by)
    options = json.loads(asked["options"])
    assert (options["rpId"], options["userVerification"]) == ("whatsapp.com", "required")
    assert await _answer(rig, session, asked) == {"ok": True}
    shown = (await session.event("PASSKEY", stage="confirm"))["data"]
    assert shown["auto"] is True  # the phone knows from the scan which device it is
    await session.event("CONNECTED", phoneNumber=session.phone)
    assert [event["data"]["stage"] for event in session.station.events if event["type"] == "PASSKEY"][-1] == "pairing"
    await rig.world.whatsapp.send_text(session.phone, session.phone, "linked")


@pytest.mark.parametrize("fault", [{"refuse": 1}, {"stale_challenge": True}, {"old_proof": True}])
async def test_where_whatsapp_wants_it_the_codes_are_compared_and_never_confirmed_by_themselves(
    rig: Rig, fault: dict[str, Any]
) -> None:
    session, asked = await _asked(rig, **fault)
    seen = len(session.station.events)
    await _answer(rig, session, asked)
    await session.event("PASSKEY", stage="failed", reason="rejected", retry="new")
    again = (await session.event("PASSKEY", stage="required", after=seen))["data"]
    assert again["options"] != asked["options"]
    await _answer(rig, session, again)
    shown = (await session.event("PASSKEY", stage="confirm"))["data"]
    assert (shown["auto"], shown["code"]) == (False, _ceremony(rig, session).code)
    assert not [event for event in session.station.events if event["type"] == "CONNECTED"]
    _ceremony(rig, session).is_confirmed = True
    command = await rig.server.command(session.id, "passkey")
    assert await rig.server.result(session.id, command) == {"ok": True}
    await session.event("CONNECTED", phoneNumber=session.phone)


@pytest.mark.parametrize("fault", [{"no_options": True}, {"twice": True}, {"twice_after": True}])
async def test_what_whatsapp_does_otherwise_than_usual_does_not_hinder_the_link(
    rig: Rig, fault: dict[str, Any]
) -> None:
    session, asked = await _asked(rig, **fault)
    if "twice" in fault:
        await until(lambda: len(_ceremony(rig, session).challenges) == 2, "it asked twice")
        asks = [event["data"] for event in session.station.events if event["type"] == "PASSKEY"]
        asked = asks[-1]
    await _answer(rig, session, asked)
    await session.event("CONNECTED", phoneNumber=session.phone)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"short_nonce": True}, "server_error"),
        ({"garbage": True}, "server_error"),
        ({"unknown_child": True}, "server_error"),
        ({"drop": True}, "socket_closed"),
    ],
)
async def test_a_ceremony_that_goes_wrong_is_told_with_its_reason_and_can_begin_anew(
    rig: Rig, fault: dict[str, Any], reason: str
) -> None:
    session, asked = await _asked(rig, **fault)
    seen = len(session.station.events)
    await _answer(rig, session, asked)
    failed = (await session.event("PASSKEY", stage="failed", after=seen))["data"]
    assert (failed["reason"], failed["retry"]) == (reason, "restart")
    qr = await session.event("QR_CODE", after=seen)
    await rig.world.whatsapp.scan(session.phone, qr["data"]["qr"])
    await session.event("CONNECTED", phoneNumber=session.phone)


@pytest.mark.parametrize("fault", [{"foreign": True}, {"no_continuation": True}])
async def test_a_continuation_that_is_not_whatsapps_does_not_get_on(rig: Rig, fault: dict[str, Any]) -> None:
    session, asked = await _asked(rig, **fault)
    await _answer(rig, session, asked)
    await session.event("PASSKEY", stage="sent")
    await asyncio.sleep(0)
    again = await _answer(rig, session, asked)
    assert again == {"ok": False, "code": "NO_PASSKEY_ASKED"}
    assert not [each for each in session.station.events if each["data"].get("stage") == "confirm"]


@pytest.mark.parametrize(
    "how",
    [
        {"origin": "https://dashboard.example.com"},
        {"rp_id": "web.whatsapp.com"},
        {"flags": 0x01},
        {"challenge": "b2xkZXI"},
        {"signer": "972501230987"},
    ],
)
async def test_an_answer_that_whatsapp_refuses_is_asked_for_again(rig: Rig, how: dict[str, Any]) -> None:
    session, asked = await _asked(rig)
    seen = len(session.station.events)
    await _answer(rig, session, asked, **how)
    await session.event("PASSKEY", stage="failed", reason="rejected", after=seen)
    await session.event("PASSKEY", stage="required", after=seen)


async def test_a_pairing_under_the_old_secret_links_nothing(rig: Rig) -> None:
    session, asked = await _asked(rig, old_secret=True)
    seen = len(session.station.events)
    await _answer(rig, session, asked)
    await session.event("PASSKEY", stage="failed", reason="bad_pairing", after=seen)
    await session.event("QR_CODE", after=seen)
    assert rig.world.whatsapp.devices(session.phone) == []


async def test_a_phone_to_which_the_proof_is_not_enough_has_its_owner_compare(rig: Rig) -> None:
    session, asked = await _asked(rig, compare=True)
    await _answer(rig, session, asked)
    shown = (await session.event("PASSKEY", stage="confirm", auto=False))["data"]
    assert shown["code"] == _ceremony(rig, session).code
    assert rig.world.whatsapp.devices(session.phone) == []
    _ceremony(rig, session).is_confirmed = True
    command = await rig.server.command(session.id, "passkey")
    assert await rig.server.result(session.id, command) == {"ok": True}
    await session.event("CONNECTED", phoneNumber=session.phone)
