"""A device's whole life, as the outside world sees it."""

import pytest

from tests.worker.harness import Rig, Session, new_phone

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = b"not really a picture, but bytes are bytes " * 100


async def test_a_scanned_device_connects_says_who_it_is_and_is_available_when_its_name_arrives(rig: Rig) -> None:
    session = rig.session()
    connected = await session.link()
    assert connected["data"]["phoneNumber"] == session.phone
    assert connected["data"]["lid"].endswith("@lid")
    assert connected["epoch"] == 1
    message = await session.say(new_phone(), "first")
    await rig.server.acked(message)  # the name came with the history, after the connection had opened
    states = [entry["state"] for entry in rig.world.whatsapp.chatstates() if entry["from"] == session.phone]
    assert states.index("available") < states.index("composing")


async def test_a_text_is_acknowledged_when_whatsapp_has_it_and_both_receipts_are_told(
    rig: Rig, linked: Session
) -> None:
    session, friend = linked, new_phone()
    message = await session.say(friend, "good morning")
    ack = await rig.server.acked(message)
    assert ack["whatsappId"] == message["whatsappId"]
    [arrival] = session.arrivals(to=friend)
    assert (arrival["id"], arrival["text"]) == (message["whatsappId"], "good morning")
    await session.event("MESSAGE_SENT", messageId=message["messageId"])
    await session.event("MESSAGE_STATUS", whatsappId=message["whatsappId"], status="delivered")
    await rig.world.whatsapp.read(friend)
    await session.event("MESSAGE_STATUS", whatsappId=message["whatsappId"], status="read")


async def test_every_kind_of_media_and_a_location_arrive_as_they_were_given(rig: Rig, linked: Session) -> None:
    session, friend = linked, new_phone()
    address = rig.server.publish(PICTURE)
    for kind in ("image", "document", "audio", "video"):
        media = {"url": address, "mimetype": "application/pdf", "filename": "a.pdf", "caption": f"my {kind}"}
        message = await rig.server.send(session.id, friend, kind=kind, media=media)
        await rig.server.acked(message)
        assert rig.world.whatsapp.media_of(friend, message["whatsappId"]) == PICTURE
    place = {"latitude": 32.08, "longitude": 34.78, "name": "the office"}
    message = await rig.server.send(session.id, friend, kind="location", location=place)
    await rig.server.acked(message)
    assert [entry["kind"] for entry in session.arrivals(to=friend)] == [
        "image",
        "document",
        "audio",
        "video",
        "location",
    ]


async def test_what_a_person_writes_is_told_with_phone_and_lid_whichever_name_it_came_under(
    rig: Rig, linked: Session
) -> None:
    session, friend = linked, new_phone()
    for text, by_lid in (("by number", False), ("by lid", True)):
        await rig.world.whatsapp.send_text(friend, session.phone, text, by_lid=by_lid)
        received = (await session.event("MESSAGE_RECEIVED", text=text))["data"]
        assert (received["phone"], received["kind"]) == (friend, "text")
        assert received["lid"].endswith("@lid")


async def test_media_that_came_in_is_fetched_when_the_server_asks_for_it(rig: Rig, linked: Session) -> None:
    session, friend = linked, new_phone()
    sent = await rig.world.whatsapp.send_media(friend, session.phone, "image", PICTURE, "image/png", "look")
    received = (await session.event("MESSAGE_RECEIVED", whatsappId=sent))["data"]
    assert received["media"] == {"mimetype": "image/png", "size": len(PICTURE)}
    command = await rig.server.command(session.id, "fetch_media", whatsappId=sent)
    assert await rig.server.result(session.id, command) == PICTURE
    unknown = await rig.server.command(session.id, "fetch_media", whatsappId="3A00")
    assert await rig.server.result(session.id, unknown) == {"ok": False, "code": "UNKNOWN_MESSAGE"}


async def test_a_restart_needs_no_scan_keeps_the_identity_and_brings_what_came_meanwhile(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    first = await session.link()
    assert await session.worker.terminate() == 0
    await rig.world.whatsapp.send_text(friend, session.phone, "are you there?")
    second = await session.restart()
    assert second["data"]["fingerprint"] == first["data"]["fingerprint"]
    await session.event("MESSAGE_RECEIVED", text="are you there?")
    await rig.server.acked(await session.say(friend, "yes"))


async def test_logging_out_removes_the_device_and_ends_the_worker(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    command = await rig.server.command(session.id, "logout")
    assert await rig.server.result(session.id, command) == {"ok": True}
    await session.event("DISCONNECTED", reason="LOGGED_OUT", code=401, willReconnect=False)
    assert await session.worker.ended() == 30
    assert rig.world.whatsapp.devices(session.phone) == []


async def test_a_worker_that_is_asked_to_leave_answers_and_ends_and_one_of_another_epoch_stays(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    late = await rig.server.command(session.id, "leave", epoch=str(session.epoch - 1))
    assert await rig.server.result(session.id, late) == {"ok": False, "code": "OTHER_EPOCH"}
    await rig.server.acked(await session.say(new_phone(), "still here"))
    command = await rig.server.command(session.id, "leave", epoch=str(session.epoch))
    assert await rig.server.result(session.id, command) == {"ok": True}
    assert await session.worker.ended() == 0


async def test_pings_tell_the_state_and_a_note_to_self_is_sent_without_reports(rig: Rig) -> None:
    session = rig.session(PING_INTERVAL_MS="200", SELF_MESSAGE_INTERVAL_MS="300")
    await session.link()
    ping = await session.event("PING", socket="open")
    assert ping["data"]["rssBytes"] > 1_000_000
    assert ping["data"]["lagMs"] >= 0
    assert ping["data"]["lastTrafficAt"] <= ping["data"]["timestamp"]
    await rig.server.until(lambda: session.arrivals(to=session.phone))
    note = session.arrivals(to=session.phone)[0]
    assert note["text"] == "🔄"
    await rig.server.acked(await session.say(new_phone(), "and on"))
    kinds = [event for event in session.station.events if event["data"].get("whatsappId") == note["id"]]
    assert kinds == []


async def test_without_keep_alive_there_are_pings_but_neither_presence_nor_notes(rig: Rig) -> None:
    session = rig.session(PING_INTERVAL_MS="100", SELF_MESSAGE_INTERVAL_MS="100", ENABLE_KEEP_ALIVE="false")
    await session.link()

    async def beats(count: int) -> None:
        for _ in range(count):
            await session.event("PING", after=len(session.station.events), socket="open")

    def presences() -> set[str]:
        return {entry["state"] for entry in rig.world.whatsapp.chatstates() if entry["from"] == session.phone}

    await beats(5)
    assert presences() <= {"unavailable"}
    assert session.arrivals() == []
