"""Worker events are parsed strictly where it matters, and leniently for fields and types of newer workers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.messages.content import Location
from wa_orchestrator.domain.messages.incoming import Card, IncomingFile, IncomingKind, Quote, encode, parts_of
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.domain.workers import worker_events
from wa_orchestrator.domain.workers.event_parser import LONGEST_STRING, MOST_ITEMS, BadEvent, parse
from wa_orchestrator.domain.workers.worker_events import (
    AccountLimits,
    Disconnected,
    IncomingMessage,
    NewChatCapReport,
    Payload,
    ReachoutLockReport,
    Receipt,
    WorkerEvent,
    to_session_event,
)

AT = 1_780_000_000_000
ISO = "2026-05-28T20:26:40+00:00"


def raw_event(kind: str, data: object, **more: object) -> dict[str, Any]:
    return {"sessionId": "worker_1", "type": kind, "timestamp": AT, "data": data, **more}


EVERY = [
    (
        "PASSKEY",
        {"stage": "required", "options": "{}", "expiresAt": AT},
        worker_events.PasskeyReport(worker_events.PasskeyStage.REQUIRED, "{}", AT),
        Event.PASSKEY_ASKED,
    ),
    ("PASSKEY", {"stage": "sent"}, worker_events.PasskeyReport(worker_events.PasskeyStage.SENT), None),
    ("PROTOCOL_DRIFT", {"shapes": [{"shape": "x"}]}, worker_events.ProtocolDrift([{"shape": "x"}]), None),
    (
        "CLIENT_EXPIRATION",
        {"expiresAt": AT, "revision": 7},
        worker_events.ClientExpiration(AT, 7),
        None,
    ),
    ("QR_CODE", {"qr": "2@x", "expiresAt": AT}, worker_events.QrCode("2@x", AT), Event.QR_SHOWN),
    (
        "PAIRING_CODE",
        {"code": "ABCD1234", "expiresAt": ISO},
        worker_events.PairingCodeShown("ABCD1234", AT),
        Event.CODE_SHOWN,
    ),
    (
        "CONNECTED",
        {"phoneNumber": "972501234567", "jid": "972501234567:1@s.whatsapp.net", "lid": "1@lid", "fingerprint": "f"},
        worker_events.Connected("972501234567", "972501234567:1@s.whatsapp.net", "1@lid", "f"),
        Event.CONNECTED,
    ),
    (
        "DISCONNECTED",
        {"reason": "lost", "code": 428, "willReconnect": True},
        worker_events.Disconnected(428, "lost"),
        Event.CONNECTION_LOST,
    ),
    ("STATUS_CHANGE", {"status": "reconnecting"}, worker_events.StatusChange("reconnecting"), None),
    ("STATUS_CHANGE", {"status": "QR_EXPIRED"}, worker_events.StatusChange("QR_EXPIRED"), Event.QR_RAN_OUT),
    (
        "STATUS_CHANGE",
        {"status": "passkey_required"},
        worker_events.StatusChange("passkey_required"),
        Event.PASSKEY_DEMANDED,
    ),
    (
        "PING",
        {"timestamp": AT, "socket": "open", "lagMs": 1.5, "rssBytes": 9, "lastTrafficAt": None},
        worker_events.Ping("open", 1, 9),
        None,
    ),
    ("MESSAGE_SENT", {"messageId": "m", "whatsappId": "w", "to": "t"}, worker_events.MessageSent("m", "w"), None),
    (
        "MESSAGE_FAILED",
        {"messageId": "m", "code": 463, "error": "no"},
        worker_events.MessageFailed("m", "463"),
        None,
    ),
    ("MESSAGE_FAILED", {"messageId": "m", "code": "NO_ACK"}, worker_events.MessageFailed("m", "NO_ACK"), None),
    (
        "MESSAGE_STATUS",
        {"whatsappId": "w", "status": "read", "at": AT},
        worker_events.MessageReceipt("w", Receipt.READ, AT),
        None,
    ),
    (
        "MESSAGE_RECEIVED",
        {"whatsappId": "w", "from": "1@lid", "kind": "image", "media": {"mimetype": "image/png"}, "at": AT},
        worker_events.IncomingMessage("w", "1@lid", IncomingKind.IMAGE, AT, media=IncomingFile("image/png")),
        None,
    ),
    (
        "MESSAGE_RECEIVED",
        {
            "whatsappId": "w",
            "from": "1@lid",
            "phone": "9725",
            "lid": "1",
            "pushName": "N",
            "kind": "text",
            "text": "t",
            "at": AT,
        },
        worker_events.IncomingMessage("w", "1@lid", IncomingKind.TEXT, AT, "9725", "1", "N", "t"),
        None,
    ),
    (
        "MESSAGE_RECEIVED",
        {
            "whatsappId": "w",
            "from": "1@lid",
            "kind": "contact",
            "at": AT,
            "contacts": [{"name": "Dana", "phones": ["9725"]}],
            "replyTo": {"whatsappId": "q", "fromMe": True},
        },
        worker_events.IncomingMessage(
            "w", "1@lid", IncomingKind.CONTACTS, AT, contacts=(Card("Dana", ("9725",)),), reply_to=Quote("q", True)
        ),
        None,
    ),
    (
        "MESSAGE_RECEIVED",
        {"whatsappId": "w", "from": "1@lid", "kind": "hologram", "at": AT},
        worker_events.IncomingMessage("w", "1@lid", IncomingKind.OTHER, AT),
        None,
    ),
    (
        "MESSAGE_SENT_ELSEWHERE",
        {"whatsappId": "w", "from": "1@lid", "kind": "text", "text": "t", "at": AT},
        worker_events.SentElsewhere("w", "1@lid", IncomingKind.TEXT, AT, text="t"),
        None,
    ),
    (
        "CALL",
        {"callId": "c", "status": "missed", "from": "1@lid", "at": AT, "video": True},
        worker_events.Call("c", worker_events.CallStatus.MISSED, "1@lid", AT, video=True),
        None,
    ),
    (
        "LINK_HISTORY",
        {"chats": [{"at": AT, "lid": "1", "texts": [{"whatsappId": "w", "at": AT, "text": "t", "fromMe": True}]}]},
        worker_events.LinkHistory(
            (worker_events.LinkedChat(AT, lid="1", texts=(worker_events.PastText("w", AT, "t", True),)),)
        ),
        None,
    ),
    ("PROXY_ERROR", {"error": "no", "stage": "auth"}, worker_events.ProxyError("no"), None),
    ("AUTH_FAILURE", {"reason": "unreadable"}, worker_events.AuthFailure("unreadable"), Event.AUTH_BROKEN),
    (
        "ACCOUNT_LIMITS",
        {"reachoutLock": {"active": True, "endsAt": AT, "type": "BIZ"}, "newChatCap": {"status": "CAPPED", "used": 3}},
        worker_events.AccountLimits(
            worker_events.ReachoutLockReport(True, AT, "BIZ"), worker_events.NewChatCapReport("CAPPED", 3)
        ),
        None,
    ),
    (
        "ACCOUNT_LIMITS",
        {"reachoutLock": {"active": False}},
        worker_events.AccountLimits(worker_events.ReachoutLockReport(False)),
        None,
    ),
]


@pytest.mark.parametrize(("kind", "data", "payload", "means"), EVERY)
def test_every_type_of_event_is_parsed_and_mapped_to_its_session_event(
    kind: str, data: dict[str, Any], payload: Payload, means: Event | None
) -> None:
    assert parse(raw_event(kind, data)) == WorkerEvent("worker_1", kind, AT, payload)
    assert to_session_event(payload) is means


@pytest.mark.parametrize(
    ("kind", "data", "payload"),
    [
        ("QR_CODE", {"qr": "2@x"}, worker_events.QrCode("2@x", AT + worker_events.QrCode.LIFE_MS)),
        (
            "PAIRING_CODE",
            {"code": "ABCD1234"},
            worker_events.PairingCodeShown("ABCD1234", AT + worker_events.PairingCodeShown.LIFE_MS),
        ),
        (
            "CONNECTED",
            {"phoneNumber": "972501234567"},
            worker_events.Connected("972501234567"),
        ),
        ("DISCONNECTED", {"reason": "lost", "code": 428}, worker_events.Disconnected(428, "lost")),
        ("DISCONNECTED", {"reason": "loggedOut", "code": 401}, worker_events.Disconnected(401, "loggedOut")),
        ("PING", {"timestamp": AT}, worker_events.Ping()),
        ("PROXY_ERROR", {"error": "refused"}, worker_events.ProxyError("refused")),
    ],
)
def test_an_event_with_only_the_fields_of_a_plain_worker_is_taken(
    kind: str, data: dict[str, Any], payload: Payload
) -> None:
    assert parse(raw_event(kind, data)).payload == payload


@pytest.mark.parametrize(
    ("code", "event"),
    [
        (401, Event.LOGGED_OUT),
        (402, Event.TEMPORARILY_BANNED),
        (403, Event.BANNED),
        (405, Event.CLIENT_REFUSED),
        (406, Event.BANNED),
        (408, Event.CONNECTION_LOST),
        (428, Event.CONNECTION_LOST),
        (440, Event.REPLACED),
        (500, Event.CONNECTION_LOST),
        (503, Event.CONNECTION_LOST),
        (515, Event.CONNECTION_LOST),
        (999, Event.CONNECTION_LOST),
    ],
)
def test_a_disconnection_is_mapped_by_its_number(code: int, event: Event) -> None:
    assert to_session_event(worker_events.Disconnected(code)) is event


def test_a_disconnection_with_a_known_reason_is_mapped_by_that() -> None:
    assert to_session_event(worker_events.Disconnected(408, "QR_EXPIRED")) is Event.QR_RAN_OUT


def test_the_end_of_a_temporary_ban_is_read() -> None:
    data = {"reason": "ban", "code": 402, "willReconnect": False, "expiresAt": ISO}
    assert parse(raw_event("DISCONNECTED", data)).payload == worker_events.Disconnected(402, "ban", AT)


@pytest.mark.parametrize(
    ("payload", "blames"),
    [
        (worker_events.ProxyError("x"), True),
        (worker_events.StatusChange("PROXY_ERROR"), True),
        (worker_events.StatusChange("disconnected", "proxy refused"), True),
        (worker_events.StatusChange("disconnected"), False),
        (worker_events.Disconnected(500, "Socks5 Authentication failed"), True),
        (worker_events.Disconnected(408, "Proxy connection timed out"), True),
        (worker_events.Disconnected(428, "Connection Terminated"), False),
        (worker_events.AuthFailure("proxy"), False),
    ],
)
def test_a_worker_may_blame_its_proxy_in_three_ways(payload: Payload, blames: bool) -> None:
    assert worker_events.mentions_proxy(payload) is blames


def test_an_unknown_type_is_not_an_error() -> None:
    event = parse({"sessionId": "worker_1", "type": "HOLOGRAM", "timestamp": AT, "v": 2})
    assert event.payload == worker_events.UnknownEvent()
    assert to_session_event(event.payload) is None


def test_sequence_and_epoch_are_parsed_and_unknown_fields_are_ignored() -> None:
    event = parse(raw_event("AUTH_FAILURE", {"reason": "r", "later": 1}, sequence=7, epoch=3, v=1, later={}))
    assert (event.sequence, event.epoch) == (7, 3)


@pytest.mark.parametrize(
    ("raw", "path", "problem"),
    [
        ({}, "type", "is missing"),
        ({"type": "PING", "timestamp": AT}, "sessionId", "is missing"),
        (raw_event(5, {}), "type", "must be a string"),  # type: ignore[arg-type]
        (raw_event("PING", None), "data", "is missing"),
        (raw_event("PING", []), "data", "must be an object"),
        (raw_event("QR_CODE", {"qr": 1}), "data.qr", "must be a string"),
        (
            raw_event("QR_CODE", {"qr": "x", "expiresAt": "soon"}),
            "data.expiresAt",
            "must be an ISO 8601 date and time, or milliseconds since 1970",
        ),
        (
            raw_event("QR_CODE", {"qr": "x", "expiresAt": "2026-05-28T20:26:40"}),
            "data.expiresAt",
            "must have a UTC offset",
        ),
        (raw_event("QR_CODE", {"qr": "x", "expiresAt": True}), "data.expiresAt", "must be a number"),
        (raw_event("QR_CODE", {"qr": "x", "expiresAt": float("nan")}), "data.expiresAt", "must be a number"),
        (
            raw_event("ACCOUNT_LIMITS", {"reachoutLock": {"active": "yes"}}),
            "data.reachoutLock.active",
            "must be true or false",
        ),
        (
            raw_event("MESSAGE_STATUS", {"whatsappId": "w", "status": "seen", "at": AT}),
            "data.status",
            "must be one of delivered, read, played",
        ),
        (raw_event("ACCOUNT_LIMITS", {"reachoutLock": {}}), "data.reachoutLock.active", "is missing"),
        (raw_event("PROTOCOL_DRIFT", {"shapes": "ack.error:479"}), "data.shapes", "must be a list"),
    ],
)
def test_an_invalid_event_is_refused_with_its_path_and_problem(raw: dict[str, Any], path: str, problem: str) -> None:
    with pytest.raises(BadEvent) as refusal:
        parse(raw)
    assert (refusal.value.path, refusal.value.problem) == (path, problem)


LOCKED = {"active": True, "endsAt": AT + 60_000, "type": "DEFAULT"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"reachoutLock": LOCKED, "newChatCap": {"status": "CAPPED", "used": "100", "total": "of 100"}},
            AccountLimits(ReachoutLockReport(True, AT + 60_000, "DEFAULT"), NewChatCapReport("CAPPED")),
        ),
        (
            {"reachoutLock": LOCKED, "newChatCap": "used up"},
            AccountLimits(ReachoutLockReport(True, AT + 60_000, "DEFAULT")),
        ),
        (
            {"reachoutLock": {"active": True, "endsAt": "soon", "type": 7}},
            AccountLimits(ReachoutLockReport(True)),
        ),
    ],
)
def test_a_lock_is_not_lost_with_a_field_that_is_wrong(data: dict[str, Any], expected: AccountLimits) -> None:
    assert parse(raw_event("ACCOUNT_LIMITS", data)).payload == expected


def test_a_ban_is_not_lost_with_a_field_that_is_wrong() -> None:
    told = {"code": 403, "reason": ["forbidden"], "expiresAt": "tomorrow", "revision": "2.3000"}
    assert parse(raw_event("DISCONNECTED", told)).payload == Disconnected(403)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["qr", "code", "active"]), inner),
    max_leaves=4,
)


@quick
@given(st.sampled_from(EVERY), st.data())
def test_any_value_of_a_field_is_parsed_or_refused_and_raises_nothing_else(
    case: tuple[Any, ...], data: st.DataObject
) -> None:
    kind, good, *_ = case
    broken = json.loads(json.dumps(good))
    broken[data.draw(st.sampled_from(sorted(good)))] = data.draw(values)
    try:
        parse(raw_event(kind, broken))
        path = "data"
    except BadEvent as refusal:
        path = refusal.path
    assert path.startswith("data")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"latitude": 32.1, "longitude": 34.8, "name": "Office"}, Location(32.1, 34.8, "Office", None)),
        ({"name": "somewhere"}, None),
    ],
)
def test_a_location_without_coordinates_is_none(place: dict[str, Any], expected: Location | None) -> None:
    data = {"whatsappId": "3A01", "from": "1@s.whatsapp.net", "kind": "location", "at": AT, "location": place}
    payload = parse(raw_event("MESSAGE_RECEIVED", data)).payload
    assert isinstance(payload, IncomingMessage)
    assert payload.location == expected


def test_a_part_that_is_no_list_is_refused_by_its_path() -> None:
    raw = {"whatsappId": "w", "from": "1@lid", "kind": "contacts", "at": AT, "contacts": "Dana"}
    with pytest.raises(BadEvent, match=r"data\.contacts: must be a list"):
        parse({"type": "MESSAGE_RECEIVED", "sessionId": "s", "timestamp": AT, "data": raw})


def test_parts_are_encoded_as_the_api_spells_them_and_without_what_is_not_set() -> None:
    parts = {
        "reply_to": Quote("q", from_me=True),
        "contacts": (Card("Dana", ("9725",)),),
        "album": None,
        "mentions": (),
    }
    assert parts_of(parts) == {
        "replyTo": {"whatsappId": "q", "fromMe": True},
        "contacts": [{"name": "Dana", "phones": ["9725"]}],
    }
    assert encode(IncomingFile(size=5)) == {"size": 5}


def test_what_is_longer_than_whatsapp_allows_is_cut_and_the_event_counts() -> None:
    cards = [{"name": "n" * 100_000, "phones": ["1"] * 5_000}] * 5_000
    data = {"whatsappId": "3EB0", "from": "1@s.whatsapp.net", "kind": "contacts", "at": AT, "contacts": cards}
    found = parse(raw_event("MESSAGE_RECEIVED", data)).payload
    assert isinstance(found, IncomingMessage)
    assert (len(found.contacts), len(found.contacts[0].phones)) == (MOST_ITEMS, MOST_ITEMS)
    assert found.contacts[0].name == "n" * LONGEST_STRING
    drift = parse(raw_event("PROTOCOL_DRIFT", {"shapes": [{}] * 5_000})).payload
    assert isinstance(drift, worker_events.ProtocolDrift)
    assert len(drift.shapes) == MOST_ITEMS


def test_half_of_a_surrogate_pair_is_replaced_because_it_cannot_be_stored() -> None:
    data = {"whatsappId": "w", "from": "1@lid", "kind": "text", "at": AT, "text": "שלום \ud83d"}
    payload = parse(raw_event("MESSAGE_RECEIVED", data)).payload
    assert isinstance(payload, IncomingMessage)
    assert payload.text == "שלום ?"


@pytest.mark.parametrize(
    ("report", "until_ms"),
    [
        (worker_events.NewChatCapReport("NONE"), 0),
        (worker_events.NewChatCapReport("WARNING", used=4, total=5, ends_at_ms=AT + 1), 0),
        (worker_events.NewChatCapReport("NONE", used=0, total=0), 0),  # no allowance that could be used up
        (worker_events.NewChatCapReport("CAPPED", ends_at_ms=AT + 1), AT + 1),
        (worker_events.NewChatCapReport("WARNING", used=5, total=5, ends_at_ms=AT + 1), AT + 1),
        (worker_events.NewChatCapReport("CAPPED"), AT + 9),
        (worker_events.NewChatCapReport("CAPPED", ends_at_ms=AT), AT + 9),  # an end that is over is none
    ],
)
def test_no_new_chat_begins_until_whatsapps_own_end_or_else_that_of_the_day(
    report: worker_events.NewChatCapReport, until_ms: int
) -> None:
    assert report.blocked_until_ms(AT, day_ends_ms=AT + 9) == until_ms
