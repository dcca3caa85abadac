"""What people and WhatsApp say: receipts, answers, stop words, locks, and the lists an operator keeps."""

from typing import Any

import pytest

from tests.conftest import Clock
from tests.dispatcher.stage import settle
from tests.messages.conftest import PHONE, Desk
from wa_orchestrator.domain import worker_events as events
from wa_orchestrator.domain.worker_events import WorkerEvent
from wa_orchestrator.orchestrator.api import holds
from wa_orchestrator.orchestrator.api.worker_events import Handlers
from wa_orchestrator.orchestrator.messages import incoming, receipts
from wa_orchestrator.store import keys, open_messages, records

FRIEND = "97251000001"
HANDLERS: Handlers = {
    events.MessageSent: receipts.on_message_sent,
    events.MessageStatus: receipts.on_message_status,
    events.MessageFailed: receipts.on_message_failed,
    events.MessageReceived: incoming.on_message_received,
    events.AccountLimits: incoming.on_account_limits,
}


async def tell(desk: Desk, what: str, *, sequence: int | None = None, **data: object) -> WorkerEvent:
    """A worker's event reaches its handler."""
    raw = {"sessionId": "w1", "type": what, "timestamp": 1_750_000_000_000, "epoch": 1, "data": data}
    if sequence is not None:
        raw["sequence"] = sequence
    event = events.parse(raw)
    session = await records.session(desk.context.scripts, "w1")
    assert session is not None
    await HANDLERS[type(event.payload)](desk.context, session, event)
    return event


async def says(desk: Desk, text: str, name: str = "ABC", **changes: object) -> None:
    person = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "lid": "77001@lid", **changes}
    told: dict[str, Any] = {field: value for field, value in person.items() if value is not None}
    await tell(desk, "MESSAGE_RECEIVED", whatsappId=name, kind="text", text=text, at=1_750_000_000_000, **told)


async def test_receipts_lift_a_message_step_by_step_in_any_order(desk: Desk) -> None:
    message = await desk.released(to=FRIEND)
    await desk.worker().claim()
    name = "3EB0" + message[2:].upper()
    await tell(desk, "MESSAGE_STATUS", whatsappId=name, status="delivered", at=1)
    assert await desk.stage.status(message) == "delivered"
    await tell(desk, "MESSAGE_SENT", messageId=message, whatsappId=name, to=FRIEND)
    assert await desk.stage.status(message) == "delivered"
    await tell(desk, "MESSAGE_STATUS", whatsappId=name, status="played", at=1)
    assert await desk.stage.status(message) == "read"
    await tell(desk, "MESSAGE_STATUS", whatsappId="ABCDEF", status="read", at=1)  # not one of ours


async def test_a_late_report_of_a_failure_does_not_end_the_next_attempt(desk: Desk) -> None:
    message = await desk.released()
    await desk.worker().claim()
    await tell(desk, "MESSAGE_FAILED", messageId=message, code="408", error="late")
    assert await desk.stage.status(message) == "sending"


async def test_an_answer_makes_a_known_contact_and_the_session_its_partner(desk: Desk) -> None:
    await says(desk, "hello")
    await says(desk, "hello")
    assert len(await desk.stage.events("message.received")) == 1
    assert await desk.context.redis.sismember(keys.contacts(PHONE), FRIEND)
    assert await desk.context.redis.get(keys.affinity(FRIEND)) == "w1"


@pytest.mark.parametrize("text", ["STOP", " stop. ", "Unsubscribe!", "הסר", "הסירו", "עצור"])
async def test_a_stop_word_opts_out_and_cancels_what_waits(desk: Desk, text: str) -> None:
    first = await desk.released(to=FRIEND)
    second = await desk.stage.accept("w1", PHONE, to=FRIEND)
    other = await desk.stage.accept("w1", PHONE, to="97251000002")
    await settle(desk.stage.dispatcher())
    third = await desk.stage.accept("w1", PHONE, to=FRIEND)  # not routed yet
    await says(desk, text)
    await settle(desk.stage.dispatcher())
    assert [await desk.stage.status(each) for each in (first, second, third)] == ["cancelled"] * 3
    assert await desk.stage.status(other) != "cancelled"
    [event] = await desk.stage.events("contact.opted_out")
    assert event["contact_phone"] == FRIEND
    [listed] = (await desk.client.get("/api/v1/opt-outs")).json()["optOuts"]
    assert (listed["phone"], listed["via"]) == (FRIEND, "reply")


@pytest.mark.parametrize("text", ["please stop by on Monday", "STOPPED", "אל תעצור", ""])
async def test_a_sentence_with_a_stop_word_is_no_wish(desk: Desk, text: str) -> None:
    await says(desk, text)
    assert (await desk.client.get("/api/v1/opt-outs")).json()["optOuts"] == []


async def test_a_wish_under_a_lid_counts_as_soon_as_the_phone_is_known(desk: Desk) -> None:
    await says(desk, "STOP", phone=None, **{"from": "77001@lid"})
    assert (await desk.client.get("/api/v1/opt-outs")).json()["optOuts"][0]["lid"] == "77001"
    await says(desk, "hello again", name="DEF")
    assert await desk.context.redis.hexists(keys.OPT_OUTS, FRIEND)


async def test_an_opt_out_is_obeyed_wherever_and_however_far_behind_a_message_waits(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_messages, "PAGE", 4)
    monkeypatch.setattr(open_messages, "_OVERLAP", 2)
    routed = [await desk.stage.accept("w1", PHONE, to=FRIEND) for _ in range(6)]
    await settle(desk.stage.dispatcher())
    first = await desk.stage.accept("w1", PHONE, to=FRIEND)
    others = [await desk.stage.accept("w1", PHONE, to="97251000002") for _ in range(10)]
    last = await desk.stage.accept("w1", PHONE, to=FRIEND)
    answer = await desk.client.post("/api/v1/opt-outs", json={"phone": FRIEND})
    assert answer.json()["cancelled"] == 8
    assert {await desk.stage.status(each) for each in (*routed, first, last)} == {"cancelled"}
    assert {await desk.stage.status(each) for each in others} == {"queued"}


@pytest.mark.parametrize("name", [FRIEND, "lid:77001"])
async def test_who_wants_to_hear_again_is_on_the_list_under_no_name(desk: Desk, name: str) -> None:
    await says(desk, "STOP", phone=None, **{"from": "77001@lid"})
    await says(desk, "hello again", name="DEF", lid="77001@lid")
    assert await desk.context.redis.hlen(keys.OPT_OUTS) == 2
    assert (await desk.client.delete(f"/api/v1/opt-outs/{name}")).status_code == 200
    await says(desk, "and again", name="GHI", lid="77001@lid")
    assert (await desk.client.get("/api/v1/opt-outs")).json()["optOuts"] == []


async def test_an_operator_adds_and_removes_an_opt_out(desk: Desk) -> None:
    message = await desk.stage.accept("w1", PHONE, to=FRIEND)
    answer = await desk.client.post("/api/v1/opt-outs", json={"phone": f"+{FRIEND[:3]} {FRIEND[3:]}"})
    assert (answer.status_code, answer.json()["phone"], answer.json()["cancelled"]) == (201, FRIEND, 1)
    assert await desk.stage.status(message) == "cancelled"
    assert (await desk.client.delete(f"/api/v1/opt-outs/{FRIEND}")).status_code == 200
    assert (await desk.client.delete(f"/api/v1/opt-outs/{FRIEND}")).status_code == 404


async def test_during_a_lock_whoever_writes_first_is_answered_at_once(desk: Desk, clock: Clock) -> None:
    lock = {"active": True, "endsAt": clock.now_ms + 3_600_000, "type": "DEFAULT"}
    await tell(desk, "ACCOUNT_LIMITS", reachoutLock=lock)
    stranger = await desk.stage.accept("w1", PHONE, to="97251000002")
    friend = await desk.stage.accept("w1", PHONE, to=FRIEND)
    await settle(desk.stage.dispatcher())
    assert await desk.worker().claim() is None
    await says(desk, "hello?")
    await settle(desk.stage.dispatcher())
    claimed = await desk.worker().claim()
    assert claimed is not None
    assert claimed["messageId"] == friend
    await tell(desk, "ACCOUNT_LIMITS", reachoutLock={"active": False, "type": "DEFAULT"})
    await desk.worker().ack(claimed)
    await clock.pass_ms(60_000)
    await settle(desk.stage.dispatcher())
    claimed = await desk.worker().claim()
    assert claimed is not None
    assert claimed["messageId"] == stranger


@pytest.mark.parametrize(("no_lock", "stranger_leaves"), [(4, False), (6, True)])
async def test_a_refusal_locks_unless_whatsapp_said_afterwards_that_there_is_no_lock(
    desk: Desk, clock: Clock, no_lock: int, stranger_leaves: bool
) -> None:
    message = await desk.released()
    claimed = await desk.worker().claim()
    assert claimed is not None
    refusal = {"messageId": message, "whatsappId": claimed["whatsappId"], "code": "REACHOUT_LOCKED", "error": "463"}
    told = {
        5: ("MESSAGE_FAILED", refusal),
        no_lock: ("ACCOUNT_LIMITS", {"reachoutLock": {"active": False, "type": "D"}}),
    }
    for sequence, (what, data) in sorted(told.items()):
        await tell(desk, what, sequence=sequence, **data)
    await desk.worker().nack(claimed, "REACHOUT_LOCKED", retryable=False)  # the nack comes last of all
    await desk.stage.accept("w1", PHONE, to="97251000002")
    await clock.pass_ms(60_000)
    await settle(desk.stage.dispatcher())
    assert (await desk.worker().claim() is not None) is stranger_leaves


async def test_a_ban_holds_the_phone_whichever_session_is_linked_to_it_later(desk: Desk) -> None:
    session = await records.session(desk.context.scripts, "w1")
    assert session is not None
    await holds.hold_after_ban(desk.context, session)
    await desk.stage.connect("w2", PHONE)
    message = await desk.stage.accept("w2", PHONE)
    await settle(desk.stage.dispatcher())
    assert await desk.worker("w2").claim() is None
    (found,) = (await desk.client.get("/api/anti-ban/holds")).json()["holds"]
    assert (found["id"], found["scope"], found["why"], found["until"]) == (
        f"phone:{PHONE}",
        "phone",
        "BAN_SIGNAL",
        None,
    )
    assert (await desk.client.delete(f"/api/anti-ban/holds/phone:{PHONE}")).status_code == 200
    await settle(desk.stage.dispatcher())
    assert await desk.stage.status(message) == "scheduled"


async def test_holds_are_told_to_whoever_reads_the_events(desk: Desk) -> None:
    session = await records.session(desk.context.scripts, "w1")
    assert session is not None
    for _ in range(2):
        await holds.hold_after_ban(desk.context, session)
    await desk.client.delete(f"/api/anti-ban/holds/phone:{PHONE}")
    events = (await desk.client.get("/api/v1/events")).json()["events"]
    told = [(each["type"], each["data"]) for each in events if each["type"].startswith("hold.")]
    assert [(kind, data["scope"], data["phone"]) for kind, data in told] == [
        ("hold.placed", "phone", PHONE),
        ("hold.lifted", "phone", PHONE),
    ]
    assert (told[0][1]["sessionId"], told[0][1]["why"]) == ("w1", "BAN_SIGNAL")


async def test_a_lock_without_an_end_does_not_stop_those_who_read_the_events(desk: Desk) -> None:
    await tell(desk, "ACCOUNT_LIMITS", reachoutLock={"active": True, "type": "DEFAULT"})
    answer = await desk.client.get("/api/v1/events")
    assert answer.status_code == 200
    (locked,) = [each for each in answer.json()["events"] if each["type"] == "session.reachout_locked"]
    assert not locked["data"]["until"]


async def test_the_end_of_a_ban_does_not_end_what_a_person_has_paused(desk: Desk) -> None:
    await desk.client.post("/api/anti-ban/holds", json={"sessionId": "w1", "why": "holiday"})
    session = await records.session(desk.context.scripts, "w1")
    assert session is not None
    await holds.hold_after_ban(desk.context, session, until_ms=await desk.context.scripts.now_ms() + 1000)
    found = (await desk.client.get("/api/anti-ban/holds")).json()["holds"]
    assert [(each["id"], each["why"]) for each in found][1] == ("session:w1", "holiday")


async def test_a_lifted_hold_lets_messages_go_at_once(desk: Desk) -> None:
    held = await desk.client.post("/api/anti-ban/holds", json={"all": True, "why": "holiday"})
    assert held.status_code == 201
    message = await desk.stage.accept("w1", PHONE)
    await settle(desk.stage.dispatcher())
    assert await desk.stage.status(message) == "queued"
    assert (await desk.client.delete("/api/anti-ban/holds/all")).status_code == 200
    await settle(desk.stage.dispatcher())
    assert await desk.stage.status(message) == "scheduled"
    nobody = await desk.client.post("/api/anti-ban/holds", json={"group": "no such group"})
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "NO_SUCH_GROUP")
    both = await desk.client.post("/api/anti-ban/holds", json={"all": True, "group": "haifa"})
    assert both.status_code == 422


async def test_to_raise_a_limit_needs_somebody_who_takes_the_risk_and_is_audited(desk: Desk) -> None:
    address = "/api/anti-ban/sessions/w1/limits"
    assert (await desk.client.get(address)).json()["limits"]["perDay"] == 20
    refused = await desk.client.put(address, json={"perDay": 200})
    assert (refused.status_code, refused.json()["error"]["riskier"]) == (409, ["per_day"])
    assert (await desk.client.put(address, json={"perDay": 5})).json()["limits"]["perDay"] == 5
    raised = await desk.client.put(address, json={"perDay": 200, "acknowledgeRisk": True})
    assert raised.json()["limits"]["perDay"] == 200
    audited: Any = await desk.context.redis.xrange(keys.AUDIT)
    assert [fields["action"] for _, fields in audited] == ["limits.set", "limits.set"]
    assert (await desk.client.delete(address)).json()["limits"]["perDay"] == 20
    assert (await desk.client.put(address, json={"opens": "25:00"})).status_code == 422


async def test_the_presets_are_listed(desk: Desk) -> None:
    listed = (await desk.client.get("/api/anti-ban/presets")).json()
    assert listed["preset"] == "standard"
    assert listed["presets"]["conservative"]["hot"]["perDay"] == 200
    assert listed["inForce"]["cold"]["pauseMaxMs"] == 8000
