"""What the phone tells of its chats when a device is linked: nothing by default, who and when, or the last texts, too."""

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.whatsapp.accounts import lid_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _told(session: Session) -> dict[str, dict[str, object]]:
    events = [event["data"]["chats"] for event in session.station.events if event["type"] == "LINK_HISTORY"]
    return {str(chat.get("phone") or chat["lid"]): chat for chats in events for chat in chats}


@pytest.mark.parametrize("mode", ["", "contacts", "texts"])
async def test_the_history_is_told_as_far_as_it_is_wanted(rig: Rig, mode: str) -> None:
    session, friend, hidden = rig.session(**({"LINK_HISTORY": mode} if mode else {})), new_phone(), new_phone()
    whatsapp = rig.world.whatsapp
    whatsapp.describe_account(hidden, username=f"name.{hidden}", hides_number=True)
    first = await whatsapp.send_text(friend, session.phone, "Are you open today?")
    answer = await whatsapp.send_text(session.phone, friend, "Until six.")
    await whatsapp.send_text(hidden, session.phone, "Hello.")
    await session.link()
    # What comes after it is told after it, so that nothing more is on its way.
    later = await whatsapp.send_text(friend, session.phone, "Thanks!")
    await session.event("MESSAGE_RECEIVED", whatsappId=later)
    if not mode:
        await rig.server.acked(await session.say(friend, "You are welcome."))
        assert _told(session) == {}
        return
    told = await until(lambda: _told(session) if len(_told(session)) == 2 else None, "both chats are told")
    assert (told[friend]["lid"], told[lid_of(hidden)].get("phone")) == (lid_of(friend), None)
    texts = [(each["whatsappId"], each["text"], each.get("fromMe")) for each in told[friend].get("texts", ())]  # type: ignore[attr-defined]
    wanted = [(answer, "Until six.", True), (first, "Are you open today?", None)]
    assert texts[:2] == (wanted if mode == "texts" else [])
    assert [event["type"] for event in session.station.events].count("MESSAGE_RECEIVED") == 1
