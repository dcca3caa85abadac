"""What WhatsApp sends and the worker does not know is counted by shape, and nothing of its contents is told."""

import json

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol import message_content, protobuf

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _shapes(session: Session) -> dict[str, int]:
    counted: dict[str, int] = {}
    for event in session.station.events:
        for each in event["data"]["shapes"] if event["type"] == "PROTOCOL_DRIFT" else ():
            counted[each["shape"]] = counted.get(each["shape"], 0) + each["count"]
    return counted


async def test_unknown_stanzas_errors_fields_and_protocol_messages_are_counted_without_contents(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.send_text(friend, session.phone, "nothing unusual")
    await session.event("MESSAGE_RECEIVED")
    await rig.server.acked(await session.say(friend, "nor here"))
    assert _shapes(session) == {}
    await rig.world.whatsapp.fault("novelty", phone=session.phone)
    await rig.world.whatsapp.fault("ack_error", phone=session.phone, code=477, times=1)
    await rig.server.nacked(await session.say(friend, "refused"))
    state = rig.world.whatsapp._state
    secret = message_content.text("readable") + protobuf.encode({499: "a secret"})
    strange = protobuf.encode({12: {2: 499}})
    for message in (secret, strange):
        actions.send_message(state, state.accounts.phone(friend), session.phone, message)
    await session.event("MESSAGE_RECEIVED", text="readable")
    wanted = {"notification:brand_new", "ib:brand_new_notice", "stanza:novel", "ack.error:477"}
    wanted |= {"message.field:499", "protocol:499"}
    await until(lambda: wanted <= _shapes(session).keys(), lambda: f"shapes: {_shapes(session)}")
    assert _shapes(session) == dict.fromkeys(wanted, 1)
    told = [event["data"] for event in session.station.events if event["type"] == "PROTOCOL_DRIFT"]
    assert "secret" not in json.dumps(told)
    assert friend not in json.dumps(told)


async def test_a_status_is_acknowledged_and_not_unknown(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    (device,) = rig.world.whatsapp._state.accounts.phone(session.phone).devices.values()
    await rig.world.whatsapp.fault("status", phone=session.phone)
    assert [key for key in device.pending if key.startswith("status")]
    await until(lambda: not [key for key in device.pending if key.startswith("status")], "it is acknowledged")
    await rig.world.whatsapp.send_text(new_phone(), session.phone, "later")
    await session.event("MESSAGE_RECEIVED", text="later")
    assert _shapes(session) == {}
