"""Unmodified Baileys against the simulator: what people do with a linked device."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.simulator.e2e.harness import Outside, baileys, first, jid, linked, new_phone, outside
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

DELIVERED, READ = 3, 4
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_linked_client_and_a_contact_exchange_messages_also_after_a_restart(
    world: Outside, tmp_path: Path
) -> None:
    phone, friend = new_phone(), new_phone()
    async with linked(world, tmp_path, phone) as client:
        opened = await client.wait("open")
        assert opened["id"].startswith(f"{phone}:1@")
        assert opened["lid"].endswith("@lid")

        sent = await client.do("send", to=jid(friend), text="Shalom, שלום 👋", id="3EB0" + "A1" * 9)
        at_friend = await world.shown(friend, id=sent["id"])
        at_own_phone = await world.shown(phone, id=sent["id"])
        assert (at_friend["text"], at_friend["from"], at_friend["fromMe"]) == ("Shalom, שלום 👋", phone, False)
        assert (at_own_phone["text"], at_own_phone["chat"], at_own_phone["fromMe"]) == ("Shalom, שלום 👋", friend, True)
        assert (await client.wait("ack", id=sent["id"])).get("error") is None
        await client.wait_status(sent["id"], DELIVERED)
        await world.post(f"/phones/{friend}/read")
        await client.wait_status(sent["id"], READ)

        reply = await world.post(f"/phones/{friend}/say", to=phone, text="Good to hear from you")
        heard = await client.wait("message", id=reply["id"])
        assert (heard["text"], heard["fromMe"]) == ("Good to hear from you", False)
        assert jid(friend) in (heard["from"], heard["alt"])

        await client.do("presence", kind="composing", to=jid(friend))

        async def typing() -> object:
            return first(await world.get("/chatstates"), {"from": phone, "to": friend, "state": "composing"})

        await until(typing, "the phone sees typing")

        await client.do("send", to=jid(friend), text="gone tomorrow", expiration=86400)
        assert (await world.shown(friend, text="gone tomorrow"))["expires"] == 86400

    async with baileys(world, tmp_path) as again:
        assert (await again.wait("open"))["id"] == opened["id"]
        await again.do("send", to=jid(friend), text="back from disk")
        assert (await world.shown(friend, text="back from disk"))["from"] == phone
        assert not [event for event in again.events if event["event"] == "qr"]


async def test_the_ledger_has_sender_content_proxy_and_repeats(world: Outside, tmp_path: Path) -> None:
    phone, friend = new_phone(), new_phone()
    async with linked(world, tmp_path, phone, proxy=1) as client:
        same = "3EB0" + "B2" * 9
        for text in ("once", "again"):
            await client.do("send", to=jid(friend), text=text, id=same)
            await client.wait("ack", id=same)

        async def both() -> list[dict[str, Any]] | None:
            entries = [entry for entry in await world.get("/arrivals") if entry["from"] == phone]
            return entries if len(entries) == 2 else None

        entries = await until(both, "both arrivals")
        assert [(one["to"], one["id"], one["text"], one["repeat"], one["proxy"]) for one in entries] == [
            (friend, same, "once", False, "proxy-2"),
            (friend, same, "again", True, "proxy-2"),
        ]
        shown = [one for one in await world.get(f"/phones/{friend}/inbox") if one["id"] == same]
        assert len(shown) == 1, "a phone does not show the same id twice"
        assert await world.get("/arrivals", after=entries[0]["n"]) != await world.get("/arrivals")
        (connected,) = [one for one in await world.get("/connections") if one["phone"] == phone]
        assert connected["proxy"] == "proxy-2"


async def test_a_pairing_code_links_and_a_wrong_one_does_not(world: Outside, tmp_path: Path) -> None:
    phone = new_phone()
    async with baileys(world, tmp_path, pairing_phone=phone) as client:
        code = (await client.wait("pairing-code"))["code"]
        refused = await world.http.post(f"/phones/{new_phone()}/enter-code", json={"code": code})
        assert refused.is_client_error
        await world.post(f"/phones/{phone}/enter-code", code=code)
        assert (await client.wait("open"))["id"].startswith(f"{phone}:")


async def test_an_expired_qr_is_refused_with_a_text(world: Outside, tmp_path: Path) -> None:
    async with baileys(world, tmp_path) as client:
        qr = (await client.wait("qr"))["qr"]
    phone = new_phone()

    async def gone() -> httpx.Response | None:
        answer = await world.http.post(f"/phones/{phone}/scan", json={"qr": qr})
        return answer if answer.status_code == 409 else None

    answer = await until(gone, "the code is refused")
    assert set(answer.json()) == {"code", "error"}


async def test_two_real_clients_exchange_messages(world: Outside, tmp_path: Path) -> None:
    anna, ben = new_phone(), new_phone()
    async with (
        linked(world, tmp_path / "anna", anna) as anna_client,
        linked(world, tmp_path / "ben", ben, proxy=1) as ben_client,
    ):
        question = await anna_client.do("send", to=jid(ben), text="are you there?")
        heard = await ben_client.wait("message", id=question["id"])
        assert heard["text"] == "are you there?"
        await anna_client.wait_status(question["id"], DELIVERED)
        await ben_client.do("read", id=question["id"])
        await anna_client.wait_status(question["id"], READ)
        answer = await ben_client.do("send", to=jid(anna), text="I am")
        assert (await anna_client.wait("message", id=answer["id"]))["text"] == "I am"


async def test_images_are_sent_in_both_directions_through_the_proxy_only(world: Outside, tmp_path: Path) -> None:
    phone, friend = new_phone(), new_phone()
    async with linked(world, tmp_path, phone, proxy=2) as client:
        await client.do("image", to=jid(friend), data=base64.b64encode(PIXEL).decode(), caption="one pixel")
        shown = await world.shown(friend, text="one pixel")
        assert shown["kind"] == "image"
        opened = await world.http.get(f"/phones/{friend}/inbox/{shown['id']}/media")
        assert opened.content == PIXEL

        picture = bytes(range(256)) * 40
        said = await world.post(
            f"/phones/{friend}/say-media", to=phone, kind="image", mimetype="image/png", caption="look",
            data=base64.b64encode(picture).decode(),
        )  # fmt: skip
        heard = await client.wait("message", id=said["id"])
        assert (heard["kind"], heard["text"]) == ("imageMessage", "look")
        fetched = await client.do("download", id=said["id"])
        assert fetched["sha256"] == hashlib.sha256(picture).hexdigest()

        assert (await client.do("version"))["isLatest"] is True
        network = await client.do("network")
        await client.do("leak")
        noticed = await client.do("network")
    proxy = await world.proxy(2)
    assert network["looked"] == [], "a name was looked up on this machine"
    assert set(network["dialled"]) == {f"127.0.0.1:{proxy['port']}"}, "something was dialled around the proxy"
    assert ("localhost" in noticed["looked"], "localhost:9" in noticed["dialled"]) == (True, True), "nothing is watched"
    assert {"web.whatsapp.com", "mmg.whatsapp.net"} <= set(proxy["hosts"])
    assert {entry["addressType"] for entry in proxy["connections"]} == {"domain"}
    assert {entry["user"] for entry in proxy["connections"]} == {proxy["id"]}


async def test_a_client_sends_to_a_group_and_receives_from_it(world: Outside, tmp_path: Path) -> None:
    phone, friend, other = new_phone(), new_phone(), new_phone()
    async with linked(world, tmp_path, phone) as client:
        group = (await world.post("/groups", phone=friend, subject="Family", members=[phone, other]))["jid"]
        await client.do("send", to=group, text="hello all")
        for member in (friend, other):
            assert (await world.shown(member, text="hello all"))["chat"] == group
        said = await world.post(f"/phones/{friend}/say", to=group, text="hello you")
        heard = await client.wait("message", id=said["id"])
        assert (heard["text"], heard["from"]) == ("hello you", group)


async def test_an_unregistered_number_is_not_found(world: Outside, tmp_path: Path) -> None:
    phone, friend, gone = new_phone(), new_phone(), new_phone()
    await world.post(f"/phones/{gone}/unregister")
    async with linked(world, tmp_path, phone) as client:
        there = (await client.do("lookup", phone=friend))["found"]
        assert [one["exists"] for one in there] == [True]
        assert not [one for one in (await client.do("lookup", phone=gone))["found"] if one["exists"]]


async def test_a_restart_keeps_ports_passwords_and_linked_devices(tmp_path: Path) -> None:
    phone = new_phone()
    async with (
        outside("--data-dir", str(tmp_path / "world"), "--proxies", "1") as before,
        linked(before, tmp_path / "client", phone),
    ):
        pass
    async with outside("--data-dir", str(tmp_path / "world"), "--proxies", "2") as after:
        assert after.ready["proxies"][:1] == before.ready["proxies"]
        assert len(after.ready["proxies"]) == 2
        assert {**after.ready, "proxies": []} == {**before.ready, "proxies": []}
        async with baileys(after, tmp_path / "client") as client:
            assert (await client.wait("open"))["id"].startswith(f"{phone}:")
            friend = new_phone()
            await client.do("send", to=jid(friend), text="another world, the same device")
            await after.shown(friend, text="another world, the same device")
