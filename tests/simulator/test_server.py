"""Messages on the simulated WhatsApp, with a protocol client that can misbehave."""

from tests.simulator.wireclient import WireClient, World
from tests.waiting import until
from wa_orchestrator.simulator.protocol.binary_xml import node

DANA, NOA, UNKNOWN = "972501111111", "972502222222", "972503333333"


async def test_a_text_is_decrypted_acknowledged_and_confirmed(world: World) -> None:
    client = await world.online(DANA)
    message_id = await client.say(NOA, "hello")
    assert (await client.until("ack")).attr("id") == message_id
    assert (await client.until("receipt")).attrs["from"] == f"{NOA}@s.whatsapp.net"
    (arrival,) = world.whatsapp.arrivals()
    assert (arrival["from"], arrival["to"], arrival["text"], arrival["repeat"]) == (DANA, NOA, "hello", False)
    assert [entry["text"] for entry in world.whatsapp.inbox(NOA)] == ["hello"]


async def test_a_person_answers_in_the_same_session_and_reads(world: World) -> None:
    client = await world.online(DANA)
    message_id = await client.say(NOA, "hello")
    await client.until("receipt", id=message_id)
    await world.whatsapp.send_text(NOA, DANA, "hello yourself")
    stanza = await client.until("message", notify="Person 2222")
    client.sessions[stanza.attr("from")] = client.sessions[NOA]
    assert client.decrypt(stanza).text(1) == "hello yourself"
    assert await world.whatsapp.read(NOA) == 1
    assert (await client.until("receipt", id=message_id)).attr("type") == "read"


async def test_the_same_id_again_is_a_repeat_and_shown_once(world: World) -> None:
    client = await world.online(DANA)
    for _ in range(2):
        await client.say(NOA, "once", "3EB0AA")
        await client.until("ack", id="3EB0AA")
    assert [arrival["repeat"] for arrival in world.whatsapp.arrivals()] == [False, True]
    (entry,) = world.whatsapp.inbox(NOA)
    assert (entry["shown"], entry["copies"]) == (1, 2)


async def test_messages_to_an_offline_device_arrive_at_its_next_login(world: World) -> None:
    client = await world.link(DANA)
    await client.come_online()
    await client.close()
    for text in ("one", "two"):
        await world.whatsapp.send_text(NOA, DANA, text)
    await client.come_online()
    assert [await client.next_text() for _ in range(2)] == ["one", "two"]
    await until(lambda: not _pending(world, DANA), "everything is delivered")
    await client.close()
    await client.come_online()
    assert (await client.until("ib")).require("offline").attr("count") == "0"


async def test_a_refused_message_did_not_arrive(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("ack_error", phone=DANA, code=479, times=1)
    message_id = await client.say(NOA, "no")
    assert (await client.until("ack", id=message_id)).attr("error") == "479"
    assert world.whatsapp.arrivals() == []
    assert world.whatsapp.refusals()[0]["code"] == 479
    await client.say(NOA, "yes", message_id)
    assert "error" not in (await client.until("ack", id=message_id)).attrs


async def test_the_reach_out_lock_stops_new_contacts_only(world: World) -> None:
    client = await world.online(DANA)
    await client.say(NOA, "before", "3EB001")
    await client.until("ack", id="3EB001")
    await world.whatsapp.fault("reachout_lock", phone=DANA, seconds=60)
    await client.say(NOA, "known", "3EB002")
    assert "error" not in (await client.until("ack", id="3EB002")).attrs
    await client.say(UNKNOWN, "cold", "3EB003")
    assert (await client.until("ack", id="3EB003")).attr("error") == "463"


async def test_new_chats_are_refused_once_their_allowance_is_used_up(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("newchat_cap", phone=DANA, total=3, used=2)
    await client.say(NOA, "the last one", "3EB001")
    assert "error" not in (await client.until("ack", id="3EB001")).attrs
    await client.say(UNKNOWN, "one too many", "3EB002")
    assert (await client.until("ack", id="3EB002")).attr("error") == "475"
    await client.say(NOA, "a known one", "3EB003")
    assert "error" not in (await client.until("ack", id="3EB003")).attrs


async def test_no_receipts_means_an_ack_and_nothing_more(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("no_receipts", phone=DANA)
    await client.say(NOA, "quiet", "3EB001")
    await client.until("ack", id="3EB001")
    await client.ask("w:p", "get", node("ping"))
    assert not _pending(world, DANA, "receipt")


async def test_all_devices_of_an_account_receive_its_incoming_and_outgoing_messages(world: World) -> None:
    one, other = await world.online(DANA), await world.online(DANA)
    await world.whatsapp.send_text(NOA, DANA, "to all")
    assert [await device.next_text() for device in (one, other)] == ["to all", "to all"]
    await world.whatsapp.send_text(DANA, NOA, "from my phone")
    for device in (one, other):
        stanza = await device.until("message", recipient=f"{NOA}@s.whatsapp.net")
        assert device.decrypt(stanza).message(31).message(2).text(1) == "from my phone"


async def test_a_new_device_is_announced_to_contacts(world: World) -> None:
    dana = await world.online(DANA)
    await world.whatsapp.send_text(NOA, DANA, "we know each other")
    noa = await world.online(NOA)
    notice = await dana.until("notification", type="devices")
    assert notice.require("add").children("device")[0].attr("jid") == f"{NOA}:{noa.device}@s.whatsapp.net"
    await world.whatsapp.unlink(NOA)
    assert (await dana.until("notification", type="devices")).child("remove")


async def test_a_copy_for_another_linked_device_is_relayed_unchanged(world: World) -> None:
    dana, noa = await world.online(DANA), await world.online(NOA)
    enc = node("enc", {"v": "2", "type": "msg"}, b"only Noa's device can read this")
    copies = [node("to", {"jid": f"{NOA}:{noa.device}@s.whatsapp.net"}, [enc])]
    attrs = {"id": "3EB001", "to": f"{NOA}@s.whatsapp.net", "type": "text"}
    await dana.send(node("message", attrs, [node("participants", content=copies)]))
    passed = await noa.until("message", id="3EB001")
    assert passed.attr("from") == f"{DANA}:{dana.device}@s.whatsapp.net"
    assert passed.require("enc").data == enc.data
    await noa.send(node("receipt", {"id": "3EB001", "to": passed.attr("from"), "type": "read"}))
    assert (await dana.until("receipt", type="read")).attr("from") == f"{NOA}@s.whatsapp.net"


async def test_a_phone_that_cannot_decrypt_sends_a_retry_receipt_and_the_retry_is_not_a_repeat(world: World) -> None:
    client = await world.online(DANA)
    session = await client.session(NOA)
    session.sending = type(session.sending)(bytes(32))  # type: ignore[misc]
    await client.say(NOA, "first try", "3EB001")
    asked = await client.until("receipt", type="retry")
    assert (asked.attr("id"), asked.require("retry").attr("count")) == ("3EB001", "1")
    assert [entry["kind"] for entry in world.whatsapp.arrivals()] == ["undecrypted"]
    assert _pending(world, DANA, "receipt 3EB001  ") == []  # not delivered: nobody could read it
    del client.sessions[NOA]
    await client.say(NOA, "second try", "3EB001")
    await client.until("ack", id="3EB001")
    (arrival,) = world.whatsapp.arrivals()
    assert (arrival["text"], arrival["repeat"]) == ("second try", False)
    assert "type" not in (await client.until("receipt", id="3EB001")).attrs


async def test_a_device_that_cannot_decrypt_gets_the_message_encrypted_again(world: World) -> None:
    client = await world.online(DANA)
    message_id = await world.whatsapp.send_text(NOA, DANA, "again please")
    first = await client.until("message", id=message_id)
    retry = [node("retry", {"count": "1", "id": message_id}), node("registration", content=bytes(4))]
    attrs = {"id": message_id, "to": f"{NOA}@s.whatsapp.net", "type": "retry"}
    await client.send(node("receipt", attrs, retry))
    second = await client.until("message", id=message_id)
    assert second.require("enc").attr("count") == "1"
    assert second.require("enc").data != first.require("enc").data
    assert client.decrypt(second).text(1) == "again please"


async def test_what_a_device_refused_and_asked_for_again_waits_until_it_has_that(world: World) -> None:
    client = await world.online(DANA)
    message_id = await world.whatsapp.send_text(NOA, DANA, "again please")
    await client.until("message", id=message_id)
    retry = [node("retry", {"count": "1", "id": message_id}), node("registration", content=bytes(4))]
    names = {"id": message_id, "to": f"{NOA}@s.whatsapp.net"}
    await client.send(node("receipt", {**names, "type": "retry"}, retry))
    await client.send(node("ack", {**names, "class": "message", "error": "500"}))  # of the first one
    await client.ask("w:p", "get", node("ping"))
    newer = WireClient(world)
    newer.noise, newer.phone, newer.device = client.noise, client.phone, client.device
    await newer.come_online()
    assert (await newer.until("message", id=message_id)).require("enc").attr("count") == "1"


async def test_a_delayed_ack_comes_after_the_arrival(world: World) -> None:
    client = await world.online(DANA)
    await client.session(NOA)
    await world.whatsapp.fault("ack_delay", phone=DANA, seconds=0.2)
    await client.say(NOA, "slow", "3EB001")
    await client.ask("w:p", "get", node("ping"))
    assert [entry["id"] for entry in world.whatsapp.arrivals()] == ["3EB001"]
    assert (await client.until("ack")).attr("id") == "3EB001"


async def test_typing_is_recorded_and_forwarded(world: World) -> None:
    dana, noa = await world.online(DANA), await world.online(NOA)
    await dana.send(node("chatstate", {"to": f"{NOA}@s.whatsapp.net"}, [node("composing")]))
    assert (await noa.until("chatstate")).attr("from") == f"{DANA}@s.whatsapp.net"
    (state,) = world.whatsapp.chatstates()
    assert (state["from"], state["to"], state["state"]) == (DANA, NOA, "composing")


# ── misbehaviour ────────────────────────────────────────────────────────────────────────────────────────────────────


def _pending(world: World, phone: str, kind: str = "message") -> list[str]:
    devices = world.whatsapp._state.accounts.phone(phone).devices.values()
    return [key for device in devices for key in device.pending if key.startswith(kind)]
