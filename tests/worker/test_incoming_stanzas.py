"""Stanzas that Baileys leaves unanswered, answers wrongly or cannot read: none costs the connection or what comes after it."""

from typing import Any

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.protocol.binary_xml import Node, node

pytestmark = pytest.mark.asyncio(loop_scope="session")

SERVER = "@s.whatsapp.net"


def _connection(rig: Rig, session: Session) -> Any:
    (connection,) = rig.world.whatsapp._state.connections_of(session.phone)
    return connection


async def test_a_ping_of_whatsapp_is_answered(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    await rig.world.whatsapp.fault("server_ping", phone=session.phone, seconds=60)

    def outcome() -> str:
        ended = any(event["type"] == "DISCONNECTED" for event in session.station.events)
        pongs = sum(each["pongs"] for each in rig.world.whatsapp.connections() if each["phone"] == session.phone)
        return "ended" if ended else "answered" if pongs else ""

    await until(lambda: bool(outcome()), "the ping has an answer, or ended the connection")
    assert outcome() == "answered"


async def test_a_status_that_cannot_be_decrypted_holds_up_no_message(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    (device,) = rig.world.whatsapp._state.accounts.phone(session.phone).devices.values()
    await rig.world.whatsapp.fault("status", phone=session.phone, form="message")

    def is_settled() -> bool:
        waiting = any(stanza.attr("from") == "status@broadcast" for stanza in device.pending.values())
        return not waiting or bool(device.refused)

    await until(is_settled, "the status is taken or refused")
    await session.worker.terminate()
    await rig.world.whatsapp.send_text(new_phone(), session.phone, "while you were out")
    await session.restart()
    await session.event("MESSAGE_RECEIVED", text="while you were out")


_NOTIFICATIONS: list[tuple[str, list[Node] | bytes]] = [
    ("encrypt", []),
    ("encrypt", [node("count")]),
    ("devices", [node("add", {}, [node("device", {"jid": "nobody"})])]),
    ("account_sync", []),
    ("server_sync", [node("collection", {"name": "unheard"})]),
    ("mediaretry", []),
    ("w:gp2", [node("create", {}, [node("group")])]),
    ("privacy_token", [node("tokens", {}, [node("token", {"type": "trusted_contact"})])]),
    ("mex", [node("update", {"op_name": "Unheard"}, b"no JSON")]),
    ("newsletter", [node("live_updates")]),
    ("link_code_companion_reg", [node("link_code_companion_reg", {"stage": "refresh_code"})]),
    ("picture", []),
    ("brand_new", b"text instead of children"),
]
ODD = [
    node("chatstate", {"from": f"972501112223{SERVER}"}, []),
    node("chatstate", {"from": f"972501112223{SERVER}"}, b"text instead of children"),
    node("presence", {"from": f"972501112223{SERVER}", "type": "dancing", "last": "never"}),
    node("call", {"from": f"972501112223{SERVER}", "id": "c1", "t": "soon"}, []),
    node("receipt", {"from": f"972501112223{SERVER}", "id": "r1", "type": "retry"}, []),
    node("receipt", {"from": f"972501112223{SERVER}", "id": "r2", "t": "soon"}, [node("list")]),
    node("receipt", {"id": "r3"}),
    node("ack", {"class": "message", "from": f"972501112223{SERVER}"}),
    node("message", {"from": f"972501112223{SERVER}", "id": "m1"}, b"text instead of children"),
    node("message", {"from": "972501112223@interop", "id": "m2", "t": "1"}, [node("enc", {"type": "msg"}, b"x")]),
    node("message", {"from": "120363000000@g.us", "id": "m3", "t": "1"}, [node("enc", {"type": "skmsg"}, b"x")]),
    node("ib", {"from": SERVER}, [node("dirty", {"type": "groups", "timestamp": "soon"})]),
    node("ib", {"from": SERVER}, [node("edge_routing")]),
    node("iq", {"from": SERVER, "id": "q1", "type": "get", "xmlns": "urn:xmpp:whatsapp:unheard"}, [node("x")]),
    *(
        node("notification", {"from": SERVER, "id": f"n{number}", "t": "1", "type": kind}, content)
        for number, (kind, content) in enumerate(_NOTIFICATIONS)
    ),
]


async def test_stanzas_of_unheard_shapes_cost_neither_the_connection_nor_the_next_message(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.send_text(friend, session.phone, "before")
    await session.event("MESSAGE_RECEIVED", text="before")
    seen, connection = len(session.station.events), _connection(rig, session)
    for stanza in ODD:
        connection.send(Node(stanza.tag, {**stanza.attrs}, stanza.content))
    await rig.world.whatsapp.send_text(friend, session.phone, "after")
    await session.event("MESSAGE_RECEIVED", after=seen, text="after")
    await rig.server.acked(await session.say(friend, "and back"))
    told = {event["type"] for event in session.station.events[seen:]}
    assert not told & {"DISCONNECTED", "STATUS_CHANGE"}
    assert _connection(rig, session) is connection


async def test_a_message_without_a_time_is_told_with_the_time_at_which_it_came(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = rig.session()
    await session.link()
    connection = _connection(rig, session)
    send = connection.send

    def send_timeless(stanza: Node) -> None:
        attrs = {name: value for name, value in stanza.attrs.items() if name != "t"}
        send(Node(stanza.tag, attrs, stanza.content))

    monkeypatch.setattr(connection, "send", send_timeless)
    before = rig.world.whatsapp._state.now
    await rig.world.whatsapp.send_text(new_phone(), session.phone, "when was that?")
    event = await session.event("MESSAGE_RECEIVED", text="when was that?")
    assert event["data"]["at"] >= before * 1000
