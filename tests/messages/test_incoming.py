"""Receipts, incoming messages, opt-outs, reach-out locks, holds and limits."""

import itertools
from typing import Any

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, settle
from tests.messages.conftest import PHONE, MessageApi
from wa_orchestrator import audit_log
from wa_orchestrator.domain.access.permissions import Scope, reach_of
from wa_orchestrator.domain.workers import event_parser
from wa_orchestrator.domain.workers import worker_events as events
from wa_orchestrator.domain.workers.worker_events import WorkerEvent
from wa_orchestrator.orchestrator.api.events import routes as event_routes
from wa_orchestrator.orchestrator.api.workers.events import Handlers, OneStep
from wa_orchestrator.orchestrator.messages import ban_hold, incoming_messages, link_history, receipts
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.events.worker_events import EventDelivery
from wa_orchestrator.store.messages import contacts, open_messages
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import Caller

_numbers = itertools.count(1)
FRIEND = "97251000001"
HANDLERS: Handlers = {
    events.MessageSent: OneStep(receipts.on_message_sent),
    events.MessageReceipt: OneStep(receipts.on_message_status),
    events.MessageFailed: receipts.on_message_failed,
    events.IncomingMessage: OneStep(incoming_messages.on_message_received),
    events.UndecryptableMessage: incoming_messages.on_message_undecryptable,
    events.IdentityChanged: incoming_messages.on_identity_changed,
    events.SentElsewhere: incoming_messages.on_sent_elsewhere,
    events.Call: incoming_messages.on_call,
    events.AccountLimits: incoming_messages.on_account_limits,
    events.LinkHistory: link_history.on_link_history,
}


async def tell(
    api: MessageApi, what: str, *, sequence: int | None = None, by: str = "w1", **data: object
) -> WorkerEvent[events.Payload]:
    """Pass a worker's event to its handler."""
    raw = {"sessionId": by, "type": what, "timestamp": 1_750_000_000_000, "epoch": 1, "data": data}
    if sequence is not None:
        raw["sequence"] = sequence
    event = event_parser.parse(raw)
    handler = HANDLERS[type(event.payload)]
    if isinstance(handler, OneStep):
        delivery = EventDelivery(by, 1, f"evt_{next(_numbers)}", b"", 60_000)
        rest = await handler.handle(api.context, delivery, event)
        if rest is not None:
            await rest()
        return event
    session = await records.session(api.context.scripts, by)
    assert session is not None
    await handler(api.context, session, event)
    return event


async def says(api: MessageApi, text: str, name: str = "ABC", by: Any = "w1", **changes: object) -> None:
    person = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "lid": "77001@lid", **changes}
    told: dict[str, Any] = {field: value for field, value in person.items() if value is not None}
    await tell(api, "MESSAGE_RECEIVED", whatsappId=name, kind="text", text=text, at=1_750_000_000_000, by=by, **told)


async def test_receipts_lift_a_message_step_by_step_in_any_order(api: MessageApi) -> None:
    message = await api.released(to=FRIEND)
    await api.worker().claim()
    name = "3EB0" + message[2:].upper()
    await tell(api, "MESSAGE_STATUS", whatsappId=name, status="delivered", at=1)
    assert await api.scenario.status(message) == "delivered"
    await tell(api, "MESSAGE_SENT", messageId=message, whatsappId=name, to=FRIEND)
    assert await api.scenario.status(message) == "delivered"
    await tell(api, "MESSAGE_STATUS", whatsappId=name, status="played", at=1)
    assert await api.scenario.status(message) == "read"
    await tell(api, "MESSAGE_STATUS", whatsappId="ABCDEF", status="read", at=1)  # not one of ours


async def test_a_late_report_of_a_failure_does_not_end_the_next_attempt(api: MessageApi) -> None:
    message = await api.released()
    await api.worker().claim()
    await tell(api, "MESSAGE_FAILED", messageId=message, code="408", error="late")
    assert await api.scenario.status(message) == "sending"


async def test_an_answer_makes_a_known_contact_and_the_session_its_partner(api: MessageApi) -> None:
    await says(api, "hello")
    await says(api, "hello")
    assert len(await api.scenario.events("message.received")) == 1
    assert await api.context.redis.sismember(keys.contacts(PHONE), FRIEND)
    assert await api.context.redis.get(keys.affinity(FRIEND)) == "w1"


async def cannot_be_read(api: MessageApi, name: str = "ABC", reason: str = "decrypt", by: str = "w1") -> None:
    sender: dict[str, Any] = {"from": "77001@lid", "phone": FRIEND, "lid": "77001@lid"}
    await tell(api, "MESSAGE_UNDECRYPTABLE", whatsappId=name, reason=reason, at=1_750_000_000_000, by=by, **sender)


async def test_an_unreadable_message_is_told_once_and_again_as_the_message(api: MessageApi) -> None:
    await cannot_be_read(api)
    await cannot_be_read(api)
    [event] = await api.scenario.events("message.undecryptable")
    assert (event["whatsapp_id"], event["reason"], event["contact_phone"]) == ("ABC", "decrypt", FRIEND)
    await says(api, "readable now")
    [received] = await api.scenario.events("message.received")
    assert received["whatsapp_id"] == "ABC"
    events = (await api.client.get("/api/v1/events", params={"types": "message.undecryptable"})).json()["events"]
    assert events[0]["data"] == {
        "sessionId": "w1", "phone": PHONE, "whatsappId": "ABC", "reason": "decrypt",
        "contact": {"phone": FRIEND, "lid": "77001"},
    }  # fmt: skip


async def test_a_message_that_came_meanwhile_is_not_told_as_unreadable(api: MessageApi) -> None:
    await says(api, "hello")
    await cannot_be_read(api)
    assert await api.scenario.events("message.undecryptable") == []


async def test_a_number_that_changed_hands_is_told_once_and_is_a_new_contact(api: MessageApi) -> None:
    await api.released(to=FRIEND)
    assert await api.worker().claim()
    await says(api, "hello")
    for _ in range(2):
        await tell(api, "CONTACT_IDENTITY_CHANGED", phone=FRIEND, oldLid="77001@lid", newLid="88002@lid")
    [event] = await api.scenario.events("contact.identity_changed")
    assert (event["contact_phone"], event["contact_lid"], event["previous_lid"]) == (FRIEND, "88002", "77001")
    assert not await api.context.redis.sismember(keys.contacts(PHONE), FRIEND)
    assert await api.context.redis.get(keys.lid_of(FRIEND)) == "88002"
    await tell(api, "CONTACT_IDENTITY_CHANGED", phone=FRIEND)  # a worker that does not know the LIDs
    assert await api.context.redis.get(keys.lid_of(FRIEND)) is None


@pytest.mark.parametrize("text", ["STOP", " stop. ", "Unsubscribe!", "הסר", "הסירו", "עצור"])
async def test_a_stop_word_opts_out_and_cancels_what_waits(api: MessageApi, text: str) -> None:
    first = await api.released(to=FRIEND)
    second = await api.scenario.accept("w1", PHONE, to=FRIEND)
    other = await api.scenario.accept("w1", PHONE, to="97251000002")
    await settle(api.scenario.dispatcher())
    third = await api.scenario.accept("w1", PHONE, to=FRIEND)  # not routed yet
    await says(api, text)
    await settle(api.scenario.dispatcher())
    assert [await api.scenario.status(each) for each in (first, second, third)] == ["cancelled"] * 3
    assert await api.scenario.status(other) != "cancelled"
    [event] = await api.scenario.events("contact.opted_out")
    assert event["contact_phone"] == FRIEND
    [listed] = (await api.client.get("/api/v1/opt-outs")).json()["optOuts"]
    assert (listed["phone"], listed["via"]) == (FRIEND, "reply")


@pytest.mark.parametrize("text", ["please stop by on Monday", "STOPPED", "אל תעצור", ""])
async def test_a_sentence_with_a_stop_word_is_no_opt_out(api: MessageApi, text: str) -> None:
    await says(api, text)
    assert (await api.client.get("/api/v1/opt-outs")).json()["optOuts"] == []


async def test_an_opt_out_under_a_lid_applies_as_soon_as_the_phone_is_known(api: MessageApi) -> None:
    await says(api, "STOP", phone=None, **{"from": "77001@lid"})
    assert (await api.client.get("/api/v1/opt-outs")).json()["optOuts"][0]["lid"] == "77001"
    await says(api, "hello again", name="DEF")
    assert await api.context.redis.hexists(keys.OPT_OUTS, FRIEND)


async def test_an_opt_out_cancels_messages_wherever_they_wait(api: MessageApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_messages, "PAGE", 4)
    monkeypatch.setattr(open_messages, "_OVERLAP", 2)
    routed = [await api.scenario.accept("w1", PHONE, to=FRIEND) for _ in range(6)]
    await settle(api.scenario.dispatcher())
    first = await api.scenario.accept("w1", PHONE, to=FRIEND)
    others = [await api.scenario.accept("w1", PHONE, to="97251000002") for _ in range(10)]
    last = await api.scenario.accept("w1", PHONE, to=FRIEND)
    answer = await api.client.post("/api/v1/opt-outs", json={"phone": FRIEND})
    assert answer.json()["cancelled"] == 8
    assert {await api.scenario.status(each) for each in (*routed, first, last)} == {"cancelled"}
    assert {await api.scenario.status(each) for each in others} == {"queued"}


@pytest.mark.parametrize("name", [FRIEND, "lid:77001"])
async def test_an_opt_in_removes_the_phone_and_the_lid_from_the_list(api: MessageApi, name: str) -> None:
    await says(api, "STOP", phone=None, **{"from": "77001@lid"})
    await says(api, "hello again", name="DEF", lid="77001@lid")
    assert await api.context.redis.hlen(keys.OPT_OUTS) == 2
    assert (await api.client.delete(f"/api/v1/opt-outs/{name}")).status_code == 200
    await says(api, "and again", name="GHI", lid="77001@lid")
    assert (await api.client.get("/api/v1/opt-outs")).json()["optOuts"] == []


LID = "123456789012345"


async def test_a_person_who_hides_the_phone_is_put_on_the_list_by_lid(api: MessageApi) -> None:
    await says(api, "hello", phone=None, lid=None, **{"from": f"{LID}@lid"})
    message = await api.scenario.accept("w1", PHONE, to=f"lid:{LID}")
    added = (await api.client.post("/api/v1/opt-outs", json={"phone": f"lid:{LID}"})).json()
    assert (added["phone"], added["lid"], added["cancelled"]) == (None, LID, 1)
    assert await api.scenario.status(message) == "cancelled"
    for bad, code in (("lid:x", "BAD_RECIPIENT"), (LID, "RECIPIENT_IS_LID"), ("120363025246125486@g.us", "BAD_PHONE")):
        refused = await api.client.post("/api/v1/opt-outs", json={"phone": bad})
        assert refused.json()["error"]["code"] == code, bad


async def test_an_opt_out_cancels_what_waits_under_either_name(api: MessageApi) -> None:
    message = await api.scenario.accept("w1", PHONE, to=f"lid:{LID}")
    await contacts.set_names(api.context.scripts, FRIEND, LID)
    added = (await api.client.post("/api/v1/opt-outs", json={"phone": FRIEND})).json()
    assert (added["phone"], added["cancelled"]) == (FRIEND, 1)
    assert await api.scenario.status(message) == "cancelled"


async def test_the_lid_of_somebody_whose_number_is_anothers_now_is_not_taken_for_that_number(api: MessageApi) -> None:
    await contacts.set_names(api.context.scripts, FRIEND, LID)
    await api.context.redis.set(keys.lid_of(FRIEND), "77001")  # another account has it since
    added = (await api.client.post("/api/v1/opt-outs", json={"phone": f"lid:{LID}"})).json()
    assert (added["phone"], added["lid"]) == (None, LID)


async def test_a_line_with_the_digits_of_a_lid_is_refused_by_an_import(api: MessageApi) -> None:
    await says(api, "hello", phone=None, lid=None, **{"from": f"{LID}@lid"})
    file = f"phone\nDana\n{LID}\n{FRIEND}\n"
    told = (await api.client.post("/api/v1/opt-outs/import", json={"text": file})).json()
    assert [(each["line"], each["code"]) for each in told["errors"]] == [(2, "BAD_PHONE"), (3, "RECIPIENT_IS_LID")]
    assert (told["added"], await api.context.redis.hkeys(keys.OPT_OUTS)) == (1, [FRIEND])


async def test_an_operator_adds_and_removes_an_opt_out(api: MessageApi) -> None:
    message = await api.scenario.accept("w1", PHONE, to=FRIEND)
    answer = await api.client.post("/api/v1/opt-outs", json={"phone": f"+{FRIEND[:3]} {FRIEND[3:]}"})
    assert (answer.status_code, answer.json()["phone"], answer.json()["cancelled"]) == (201, FRIEND, 1)
    assert await api.scenario.status(message) == "cancelled"
    assert (await api.client.delete(f"/api/v1/opt-outs/{FRIEND}")).status_code == 200
    assert (await api.client.delete(f"/api/v1/opt-outs/{FRIEND}")).status_code == 404


async def test_during_a_lock_messages_to_a_contact_that_wrote_first_are_sent(api: MessageApi, clock: Clock) -> None:
    lock = {"active": True, "endsAt": clock.now_ms + 3_600_000, "type": "DEFAULT"}
    await tell(api, "ACCOUNT_LIMITS", reachoutLock=lock)
    stranger = await api.scenario.accept("w1", PHONE, to="97251000002")
    friend = await api.scenario.accept("w1", PHONE, to=FRIEND)
    await settle(api.scenario.dispatcher())
    assert await api.worker().claim() is None
    await says(api, "hello?")
    await settle(api.scenario.dispatcher())
    claimed = await api.worker().claim()
    assert claimed is not None
    assert claimed["messageId"] == friend
    await tell(api, "ACCOUNT_LIMITS", reachoutLock={"active": False, "type": "DEFAULT"})
    await api.worker().ack(claimed)
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    claimed = await api.worker().claim()
    assert claimed is not None
    assert claimed["messageId"] == stranger


@pytest.mark.parametrize(("no_lock", "stranger_leaves"), [(4, False), (6, True)])
async def test_a_refusal_locks_unless_whatsapp_reported_no_lock_afterwards(
    api: MessageApi, clock: Clock, no_lock: int, stranger_leaves: bool
) -> None:
    message = await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None
    refusal = {"messageId": message, "whatsappId": claimed["whatsappId"], "code": "REACHOUT_LOCKED", "error": "463"}
    told = {
        5: ("MESSAGE_FAILED", refusal),
        no_lock: ("ACCOUNT_LIMITS", {"reachoutLock": {"active": False, "type": "D"}}),
    }
    for sequence, (what, data) in sorted(told.items()):
        await tell(api, what, sequence=sequence, **data)
    await api.worker().nack(claimed, "REACHOUT_LOCKED", retryable=False)  # the nack comes last of all
    await api.scenario.accept("w1", PHONE, to="97251000002")
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    assert (await api.worker().claim() is not None) is stranger_leaves


@pytest.mark.parametrize(
    ("cap", "waits_ms"),
    [
        ({"status": "CAPPED", "used": 100, "total": 100, "endsAt": NOON + 7_200_000}, 7_200_000),
        ({"status": "SECOND_WARNING", "used": 100, "total": 100, "endsAt": NOON + 7_200_000}, 7_200_000),
        ({"status": "CAPPED"}, 12 * 3_600_000),
        ({"status": "CAPPED", "endsAt": NOON - 1}, 12 * 3_600_000),
        ({"status": "FIRST_WARNING", "used": 80, "total": 100, "endsAt": NOON + 7_200_000}, 0),
        ({"status": "NONE", "used": 0, "total": 0}, 0),
    ],
)
async def test_new_contacts_wait_while_the_allowance_of_new_chats_is_used_up(
    api: MessageApi, cap: dict[str, Any], waits_ms: int
) -> None:
    await tell(api, "ACCOUNT_LIMITS", reachoutLock={"active": False, "type": "DEFAULT"}, newChatCap=cap)
    stranger = await api.scenario.accept("w1", PHONE, to="97251000002")
    await settle(api.scenario.dispatcher())
    assert (await api.scenario.status(stranger) == "queued") is bool(waits_ms)
    events = (await api.client.get("/api/v1/events")).json()["events"]
    told = [each["data"]["until"] for each in events if each["type"] == "session.new_chats_capped"]
    assert told == ([iso(NOON + waits_ms)] if waits_ms else [])


async def test_new_contacts_are_written_to_again_once_whatsapp_reports_new_chats(api: MessageApi) -> None:
    lock = {"active": False, "type": "DEFAULT"}
    await tell(api, "ACCOUNT_LIMITS", reachoutLock=lock, newChatCap={"status": "CAPPED"})
    stranger = await api.scenario.accept("w1", PHONE, to="97251000002")
    await settle(api.scenario.dispatcher())
    assert await api.worker().claim() is None
    await tell(api, "ACCOUNT_LIMITS", reachoutLock=lock)  # a worker that could not ask says nothing of it
    await settle(api.scenario.dispatcher())
    assert await api.worker().claim() is None
    await tell(api, "ACCOUNT_LIMITS", reachoutLock=lock, newChatCap={"status": "NONE", "used": 0, "total": 100})
    await settle(api.scenario.dispatcher())
    claimed = await api.worker().claim()
    assert claimed is not None
    assert claimed["messageId"] == stranger
    types = [each["type"] for each in (await api.client.get("/api/v1/events")).json()["events"]]
    assert types.count("session.new_chats_capped") == types.count("session.new_chats_renewed") == 1


@pytest.mark.parametrize(
    "order", [("report", "refusal", "nack"), ("refusal", "report", "nack"), ("nack", "refusal", "report")]
)
async def test_a_refusal_does_not_change_the_end_that_whatsapp_reports(api: MessageApi, order: tuple[str, ...]) -> None:
    message = await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None
    cap = {"status": "CAPPED", "used": 9, "total": 9, "endsAt": NOON + 60_000}
    refusal = {"messageId": message, "whatsappId": claimed["whatsappId"], "code": "NEW_CHAT_CAP", "error": "475"}
    for sequence, what in enumerate(order, start=5):
        if what == "nack":
            await api.worker().nack(claimed, "NEW_CHAT_CAP", retryable=False)
        elif what == "refusal":
            await tell(api, "MESSAGE_FAILED", sequence=sequence, **refusal)
        else:
            lock = {"active": False, "type": "DEFAULT"}
            await tell(api, "ACCOUNT_LIMITS", sequence=sequence, reachoutLock=lock, newChatCap=cap)
    assert await api.context.redis.hget(keys.pace(PHONE), "cap_until") == str(NOON + 60_000)


async def test_a_refusal_of_the_day_before_says_nothing_about_today(api: MessageApi, clock: Clock) -> None:
    message = await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None
    await clock.pass_ms(13 * 3_600_000)  # it is past midnight, and the worker's events come only now
    lock = {"active": False, "type": "DEFAULT"}
    await tell(api, "MESSAGE_FAILED", sequence=5, messageId=message, whatsappId="X", code="NEW_CHAT_CAP", error="475")
    await tell(api, "ACCOUNT_LIMITS", sequence=6, reachoutLock=lock, newChatCap={"status": "CAPPED"})
    assert await api.context.redis.hget(keys.pace(PHONE), "cap_until") is None


async def test_a_nack_after_midnight_of_what_was_refused_before_keeps_back_nobody(
    api: MessageApi, clock: Clock
) -> None:
    message = await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None
    await clock.pass_ms(22 * 3_600_000)  # the server was away from noon until ten
    assert (await api.worker().nack(claimed, "NEW_CHAT_CAP", retryable=False)).json()["status"] == "queued"
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    again = await api.worker().claim()
    assert again is not None
    assert again["messageId"] == message


async def test_during_a_lock_groups_are_written_to(api: MessageApi, clock: Clock) -> None:
    await tell(api, "ACCOUNT_LIMITS", reachoutLock={"active": True, "type": "DEFAULT"})
    message = await api.released(to="120363000000000001@g.us")
    claimed = await api.worker().claim()
    assert claimed is not None
    answer = await api.worker().call(f"{message}/renew", {"beforeWrite": True})
    assert answer.status_code == 200, answer.text


async def test_a_ban_holds_the_phone_whichever_session_is_linked_to_it_later(api: MessageApi) -> None:
    session = await records.session(api.context.scripts, "w1")
    assert session is not None
    await ban_hold.place(api.context, session)
    await api.scenario.connect("w2", PHONE)
    message = await api.scenario.accept("w2", PHONE)
    await settle(api.scenario.dispatcher())
    assert await api.worker("w2").claim() is None
    (found,) = (await api.client.get("/api/anti-ban/holds")).json()["holds"]
    assert (found["id"], found["scope"], found["why"], found["until"]) == (
        f"phone:{PHONE}",
        "phone",
        "BAN_SIGNAL",
        None,
    )
    assert (await api.client.delete(f"/api/anti-ban/holds/phone:{PHONE}")).status_code == 200
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "scheduled"


async def test_holds_are_events(api: MessageApi) -> None:
    session = await records.session(api.context.scripts, "w1")
    assert session is not None
    for _ in range(2):
        await ban_hold.place(api.context, session)
    await api.client.delete(f"/api/anti-ban/holds/phone:{PHONE}")
    events = (await api.client.get("/api/v1/events")).json()["events"]
    told = [(each["type"], each["data"]) for each in events if each["type"].startswith("hold.")]
    assert [(kind, data["scope"], data["phone"]) for kind, data in told] == [
        ("hold.placed", "phone", PHONE),
        ("hold.lifted", "phone", PHONE),
    ]
    assert (told[0][1]["sessionId"], told[0][1]["why"]) == ("w1", "BAN_SIGNAL")


async def test_a_lock_without_an_end_does_not_break_the_events_api(api: MessageApi) -> None:
    await tell(api, "ACCOUNT_LIMITS", reachoutLock={"active": True, "type": "DEFAULT"})
    answer = await api.client.get("/api/v1/events")
    assert answer.status_code == 200
    (locked,) = [each for each in answer.json()["events"] if each["type"] == "session.reachout_locked"]
    assert not locked["data"]["until"]


async def test_the_end_of_a_ban_does_not_lift_a_hold_of_a_person(api: MessageApi) -> None:
    await api.client.post("/api/anti-ban/holds", json={"sessionId": "w1", "why": "holiday"})
    session = await records.session(api.context.scripts, "w1")
    assert session is not None
    await ban_hold.place(api.context, session, until_ms=await api.context.scripts.now_ms() + 1000)
    found = (await api.client.get("/api/anti-ban/holds")).json()["holds"]
    assert [(each["id"], each["why"]) for each in found][1] == ("session:w1", "holiday")


async def test_a_lifted_hold_releases_messages_at_once(api: MessageApi) -> None:
    held = await api.client.post("/api/anti-ban/holds", json={"all": True, "why": "holiday"})
    assert held.status_code == 201
    message = await api.scenario.accept("w1", PHONE)
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "queued"
    assert (await api.client.delete("/api/anti-ban/holds/all")).status_code == 200
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "scheduled"
    nobody = await api.client.post("/api/anti-ban/holds", json={"group": "no such group"})
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "NO_SUCH_GROUP")
    both = await api.client.post("/api/anti-ban/holds", json={"all": True, "group": "haifa"})
    assert both.status_code == 422


async def test_no_phone_stays_silent_when_the_server_dies_while_a_hold_is_lifted(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.client.post("/api/anti-ban/holds", json={"all": True})
    message = await api.scenario.accept("w1", PHONE)
    await settle(api.scenario.dispatcher())
    _die_after_the_first_step(monkeypatch)
    with pytest.raises(_DiedError):
        await api.client.delete("/api/anti-ban/holds/all")
    monkeypatch.undo()
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "scheduled"
    again = await api.client.delete("/api/anti-ban/holds/all")
    assert (again.status_code, again.json()) == (200, {"lifted": True})
    audited: Any = await api.context.redis.xrange(keys.AUDIT)
    assert audited[-1][1]["action"] == "hold.lift"
    assert (await api.client.delete("/api/anti-ban/holds/nonsense")).status_code == 404


async def test_no_phone_waits_by_old_limits_when_the_server_dies_while_they_are_changed(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "/api/anti-ban/sessions/w1/limits"
    await api.client.put(address, json={"opens": "09:00", "closes": "10:00"})
    message = await api.scenario.accept("w1", PHONE)
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "queued"
    _die_after_the_first_step(monkeypatch)
    with pytest.raises(_DiedError):
        await api.client.delete(address)
    monkeypatch.undo()
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "scheduled"


class _DiedError(Exception):
    """The server was killed."""


def _die_after_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async def die(*_args: object, **_fields: object) -> None:
        raise _DiedError

    monkeypatch.setattr(audit_log, "record", die)


async def test_raising_a_limit_needs_an_acknowledgement_and_is_audited(api: MessageApi) -> None:
    address = "/api/anti-ban/sessions/w1/limits"
    assert (await api.client.get(address)).json()["limits"]["perDay"] == 20
    refused = await api.client.put(address, json={"perDay": 200})
    assert (refused.status_code, refused.json()["error"]["riskier"]) == (409, ["perDay"])
    assert (await api.client.put(address, json={"perDay": 5})).json()["limits"]["perDay"] == 5
    raised = await api.client.put(address, json={"perDay": 200, "acknowledgeRisk": True})
    assert raised.json()["limits"]["perDay"] == 200
    audited: Any = await api.context.redis.xrange(keys.AUDIT)
    assert [fields["action"] for _, fields in audited] == ["limits.set", "limits.set"]
    assert (await api.client.delete(address)).json()["limits"]["perDay"] == 20
    assert (await api.client.put(address, json={"opens": "25:00"})).status_code == 422


async def test_own_limits_are_shown_as_they_were_given(api: MessageApi) -> None:
    address = "/api/anti-ban/sessions/w1/limits"
    own = {"perDay": 5, "pauseMinMs": 6000, "pauseMaxMs": 9000, "opens": "10:00", "closes": "18:00"}
    assert (await api.client.put(address, json=own)).json()["own"] == own
    assert (await api.client.get(address)).json()["own"] == own
    wild = {"perMinute": 99, "pauseMinMs": 1, "pauseMaxMs": 2, "opens": "00:00", "closes": "00:00"}
    refused = (await api.client.put(address, json=wild)).json()["error"]
    assert refused["riskier"] == ["perMinute", "pauseMinMs", "pauseMaxMs", "opens", "closes"]


async def test_a_session_can_have_a_time_zone_of_its_own(api: MessageApi) -> None:
    address = "/api/anti-ban/sessions/w1/timezone"
    tokyo = await api.client.put(address, json={"timezone": "Asia/Tokyo"})
    assert tokyo.json()["timezone"] == "Asia/Tokyo"
    nowhere = await api.client.put(address, json={"timezone": "Moon/Sea"})
    assert (nowhere.status_code, nowhere.json()["error"]["errors"][0]["path"]) == (422, "timezone")
    assert (await api.client.get("/api/anti-ban/sessions/w1/limits")).json()["timezone"] == "Asia/Tokyo"
    assert (await api.client.put(address, json={"timezone": None})).json()["timezone"] == "UTC"


async def test_the_presets_are_listed(api: MessageApi) -> None:
    listed = (await api.client.get("/api/anti-ban/presets")).json()
    assert listed["preset"] == "standard"
    assert listed["presets"]["conservative"]["hot"]["perDay"] == 200
    assert listed["inForce"]["cold"]["pauseMaxMs"] == 8000


async def test_what_the_owner_sends_from_the_phone_counts_for_the_pace_and_moves_the_conversation(
    api: MessageApi,
) -> None:
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND}
    for _ in range(2):
        await tell(
            api, "MESSAGE_SENT_ELSEWHERE", whatsappId="3A1", kind="text", text="hi", at=1_750_000_000_000, **person
        )
    (told,) = await api.scenario.events("message.sent_elsewhere")
    assert told["contact_phone"] == FRIEND
    assert await api.context.redis.zcard(keys.sent(PHONE)) == 1
    assert await api.context.redis.get(keys.affinity(FRIEND)) == "w1"
    assert not await api.context.redis.sismember(keys.contacts(PHONE), FRIEND)


async def test_a_message_of_another_session_of_the_same_phone_is_not_reported_as_sent_elsewhere(
    api: MessageApi,
) -> None:
    message = await api.released(to=FRIEND)
    name = "3EB0" + message[2:].upper()
    to: dict[str, Any] = {"from": f"{FRIEND}@lid"}
    await tell(api, "MESSAGE_SENT_ELSEWHERE", whatsappId=name, kind="text", text="hi", at=1, **to)
    assert await api.scenario.events("message.sent_elsewhere") == []


@pytest.mark.parametrize("kind", ["button_answer", "list_answer", "edit"])
async def test_a_stop_word_opts_out_also_as_a_button_a_row_or_an_edit(api: MessageApi, kind: str) -> None:
    about: dict[str, Any] = {"target": {"whatsappId": "3A"}} if kind == "edit" else {"choice": "b1"}
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND}
    await tell(api, "MESSAGE_RECEIVED", whatsappId="ABC", kind=kind, text="Stop", at=1, **person, **about)
    assert await api.scenario.events("contact.opted_out")


async def test_an_edit_and_a_deletion_are_events_of_their_own(api: MessageApi) -> None:
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "target": {"whatsappId": "3A"}}
    await tell(api, "MESSAGE_RECEIVED", whatsappId="E", kind="edit", text="new", at=1, **person)
    await tell(api, "MESSAGE_RECEIVED", whatsappId="D", kind="deletion", at=1, **person)
    assert len(await api.scenario.events("message.edited")) == 1
    assert len(await api.scenario.events("message.deleted")) == 1
    assert await api.scenario.events("message.received") == []


async def test_a_call_and_its_end_are_each_reported_once(api: MessageApi) -> None:
    person: dict[str, Any] = {"from": "77001@lid", "phone": FRIEND, "at": 1, "callId": "c1", "video": True}
    for status in ("offered", "offered", "missed", "missed"):
        await tell(api, "CALL", status=status, **person)
    assert len(await api.scenario.events("call.received")) == 1
    (ended,) = await api.scenario.events("call.ended")
    assert (ended["outcome"], ended["video"], ended["contact_phone"]) == ("missed", "true", FRIEND)


async def amends(api: MessageApi, kind: str, target: str, name: str, **changes: object) -> None:
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, **changes}
    await tell(api, "MESSAGE_RECEIVED", whatsappId=name, kind=kind, at=1, target={"whatsappId": target}, **person)


@pytest.mark.parametrize(("kind", "event"), [("edit", "message.edited"), ("deletion", "message.deleted")])
async def test_nobody_changes_what_we_or_somebody_else_wrote(api: MessageApi, kind: str, event: str) -> None:
    ours = "3EB0" + (await api.released(to=FRIEND))[2:].upper()
    await says(api, "the price is 100", "THEIRS", phone="97251000002", lid="77002@lid")
    await amends(api, kind, ours, "E1")
    await amends(api, kind, "THEIRS", "E2")
    assert await api.scenario.events(event) == []
    await amends(api, kind, "THEIRS", "E3", phone="97251000002")
    assert len(await api.scenario.events(event)) == 1


async def test_an_admin_of_a_group_deletes_what_another_wrote(api: MessageApi) -> None:
    await says(api, "spam", "THEIRS", phone="97251000002", lid="77002@lid", group="1-2@g.us")
    await amends(api, "deletion", "THEIRS", "D1", group="1-2@g.us")
    assert len(await api.scenario.events("message.deleted")) == 1


async def test_half_an_emoji_of_a_stranger_does_not_stop_the_messages_after_it(api: MessageApi) -> None:
    await says(api, "\ud83d", "E1")
    await says(api, "next", "E2")
    assert len(await api.scenario.events("message.received")) == 2


async def test_a_caller_that_is_limited_to_other_sessions_hears_of_no_call_and_of_no_message(api: MessageApi) -> None:
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND}
    await says(api, "hello", "ABC")
    await amends(api, "edit", "ABC", "E1")
    await amends(api, "deletion", "ABC", "D1")
    await tell(api, "MESSAGE_SENT_ELSEWHERE", whatsappId="3A1", kind="text", text="hi", at=1, **person)
    for status in ("offered", "missed"):
        await tell(api, "CALL", status=status, callId="c1", at=1, **person)

    async def heard(*sessions: str) -> list[str]:
        caller = Caller("k_1", frozenset({Scope.READ}), reach=reach_of(sessions, ()))
        found, _, _ = await event_routes.page(api.context, caller, "0", ("message.*", "call.*"), 100)
        return [each["type"] for each in found]

    assert await heard("w2") == []
    assert await heard("w1") == [
        "message.received", "message.edited", "message.deleted", "message.sent_elsewhere", "call.received", "call.ended",
    ]  # fmt: skip
