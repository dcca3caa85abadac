"""Worker events are parsed strictly where it matters, and leniently for fields and types of newer workers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain import worker_events
from wa_orchestrator.domain.content import Location
from wa_orchestrator.domain.session import Event
from wa_orchestrator.domain.worker_events import (
    BadEvent,
    IncomingMessage,
    Payload,
    ProxyStage,
    Receipt,
    WorkerEvent,
    parse,
    to_session_event,
)

AT = 1_780_000_000_000
ISO = "2026-05-28T20:26:40+00:00"


def raw_event(kind: str, data: object, **more: object) -> dict[str, Any]:
    return {"sessionId": "worker_1", "type": kind, "timestamp": AT, "data": data, **more}


EVERY = [
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
        worker_events.Disconnected("lost", 428, True),
        Event.CONNECTION_LOST,
    ),
    ("STATUS_CHANGE", {"status": "reconnecting"}, worker_events.StatusChange("reconnecting", None), None),
    ("STATUS_CHANGE", {"status": "QR_EXPIRED"}, worker_events.StatusChange("QR_EXPIRED", None), Event.QR_RAN_OUT),
    (
        "STATUS_CHANGE",
        {"status": "passkey_required"},
        worker_events.StatusChange("passkey_required", None),
        Event.PASSKEY_DEMANDED,
    ),
    (
        "PING",
        {"timestamp": AT, "socket": "open", "lagMs": 1.5, "rssBytes": 9, "lastTrafficAt": None},
        worker_events.Ping(AT, "open", 1, 9, None),
        None,
    ),
    ("MESSAGE_SENT", {"messageId": "m", "whatsappId": "w", "to": "t"}, worker_events.MessageSent("m", "w", "t"), None),
    (
        "MESSAGE_FAILED",
        {"messageId": "m", "code": 463, "error": "no"},
        worker_events.MessageFailed("m", "463", "no"),
        None,
    ),
    ("MESSAGE_FAILED", {"messageId": "m", "code": "NO_ACK"}, worker_events.MessageFailed("m", "NO_ACK", ""), None),
    (
        "MESSAGE_STATUS",
        {"whatsappId": "w", "status": "read", "at": AT},
        worker_events.MessageReceipt("w", Receipt.READ, AT),
        None,
    ),
    (
        "MESSAGE_RECEIVED",
        {"whatsappId": "w", "from": "1@lid", "kind": "image", "media": {"url": "u"}, "at": AT},
        worker_events.IncomingMessage("w", "1@lid", None, None, None, "image", None, {"url": "u"}, AT),
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
        worker_events.IncomingMessage("w", "1@lid", "9725", "1", "N", "text", "t", None, AT),
        None,
    ),
    ("PROXY_ERROR", {"error": "no", "stage": "auth"}, worker_events.ProxyError("no", ProxyStage.AUTH), None),
    ("AUTH_FAILURE", {"reason": "unreadable"}, worker_events.AuthFailure("unreadable"), Event.AUTH_BROKEN),
    (
        "ACCOUNT_LIMITS",
        {"reachoutLock": {"active": True, "endsAt": AT, "type": "BIZ"}, "newChatCap": {"status": "CAPPED", "used": 3}},
        worker_events.AccountLimits(
            worker_events.ReachoutLockReport(True, AT, "BIZ"), worker_events.NewChatCap("CAPPED", 3, None, None)
        ),
        None,
    ),
    (
        "ACCOUNT_LIMITS",
        {"reachoutLock": {"active": False}},
        worker_events.AccountLimits(worker_events.ReachoutLockReport(False, None, ""), None),
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
        ("QR_CODE", {"qr": "2@x"}, worker_events.QrCode("2@x", AT + worker_events.QR_LIFE_MS)),
        (
            "PAIRING_CODE",
            {"code": "ABCD1234"},
            worker_events.PairingCodeShown("ABCD1234", AT + worker_events.PAIRING_CODE_LIFE_MS),
        ),
        (
            "CONNECTED",
            {"phoneNumber": "972501234567"},
            worker_events.Connected("972501234567", "972501234567@s.whatsapp.net", None, None),
        ),
        ("DISCONNECTED", {"reason": "lost", "code": 428}, worker_events.Disconnected("lost", 428, True)),
        ("DISCONNECTED", {"reason": "loggedOut", "code": 401}, worker_events.Disconnected("loggedOut", 401, False)),
        ("PING", {"timestamp": AT}, worker_events.Ping(AT, "", 0, 0, None)),
        ("PROXY_ERROR", {"error": "refused"}, worker_events.ProxyError("refused", None)),
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
    assert to_session_event(worker_events.Disconnected("", code, will_reconnect=False)) is event


def test_a_disconnection_with_a_known_reason_is_mapped_by_that() -> None:
    assert to_session_event(worker_events.Disconnected("QR_EXPIRED", 408, will_reconnect=False)) is Event.QR_RAN_OUT


def test_the_end_of_a_temporary_ban_is_read() -> None:
    data = {"reason": "ban", "code": 402, "willReconnect": False, "expiresAt": ISO}
    assert parse(raw_event("DISCONNECTED", data)).payload == worker_events.Disconnected("ban", 402, False, AT)


@pytest.mark.parametrize(
    ("payload", "blames"),
    [
        (worker_events.ProxyError("x", ProxyStage.DNS), True),
        (worker_events.StatusChange("PROXY_ERROR", None), True),
        (worker_events.StatusChange("disconnected", "proxy refused"), True),
        (worker_events.StatusChange("disconnected", None), False),
        (worker_events.Disconnected("Socks5 Authentication failed", 500, True), True),
        (worker_events.Disconnected("Proxy connection timed out", 408, True), True),
        (worker_events.Disconnected("Connection Terminated", 428, True), False),
        (worker_events.AuthFailure("proxy"), False),
    ],
)
def test_a_worker_may_blame_its_proxy_in_three_ways(payload: Payload, blames: bool) -> None:
    assert worker_events.mentions_proxy(payload) is blames


def test_an_unknown_type_is_not_an_error() -> None:
    event = parse({"sessionId": "worker_1", "type": "CALL", "timestamp": AT, "v": 2})
    assert event.payload == worker_events.UnknownEvent("CALL")
    assert event.version == 2
    assert to_session_event(event.payload) is None


def test_sequence_and_epoch_are_parsed_and_unknown_fields_are_ignored() -> None:
    event = parse(raw_event("AUTH_FAILURE", {"reason": "r", "later": 1}, sequence=7, epoch=3, v=1, later={}))
    assert (event.sequence, event.epoch, event.version) == (7, 3, 1)


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
        (raw_event("DISCONNECTED", {"code": 1, "willReconnect": "yes"}), "data.willReconnect", "must be true or false"),
        (
            raw_event("PROXY_ERROR", {"error": "x", "stage": "moon"}),
            "data.stage",
            "must be one of dns, connect, auth, tunnel, dropped",
        ),
        (raw_event("ACCOUNT_LIMITS", {"reachoutLock": {}}), "data.reachoutLock.active", "is missing"),
    ],
)
def test_an_invalid_event_is_refused_with_its_path_and_problem(raw: dict[str, Any], path: str, problem: str) -> None:
    with pytest.raises(BadEvent) as refusal:
        parse(raw)
    assert (refusal.value.path, refusal.value.problem) == (path, problem)


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
