"""The catalogue of events covers every state, status and subject."""

import pytest

from wa_orchestrator.domain.ids import Phone, ProxyId, SessionId
from wa_orchestrator.domain.messages import message
from wa_orchestrator.domain.sessions import session
from wa_orchestrator.domain.stream_events import (
    ALERTS,
    INTERNAL,
    AlertTest,
    EventType,
    HoldChanged,
    Level,
    ProxyLost,
    ProxyReason,
    encode,
    fields_of,
    find,
    is_pattern,
    level_of,
    matches,
)


def test_every_state_of_a_session_and_status_of_a_message_is_an_event() -> None:
    assert {f"session.{state}" for state in session.State} <= set(EventType)
    assert {f"message.{status}" for status in message.MessageStatus} <= set(EventType)


def test_the_reachout_lock_is_a_warning_and_an_alert() -> None:
    assert level_of("session.reachout_locked") is Level.WARNING
    assert EventType.SESSION_REACHOUT_LOCKED in ALERTS


def test_a_used_up_allowance_of_new_chats_is_a_warning_and_an_alert() -> None:
    assert level_of("session.new_chats_capped") is Level.WARNING
    assert EventType.SESSION_NEW_CHATS_CAPPED in ALERTS


def test_every_error_is_an_alert() -> None:
    assert {each for each in EventType if each.level is Level.ERROR} <= ALERTS


def test_a_type_of_another_version_is_unknown_and_harmless() -> None:
    assert find("moon.landed") is None
    assert level_of("moon.landed") is Level.INFO


def test_missing_fields_are_not_written_and_from_is_spelled_as_in_the_stream() -> None:
    assert encode(ProxyLost(SessionId("a"), ProxyReason.DRAINED, ProxyId("p1"), Phone("972"))) == {
        "session": "a", "reason": "DRAINED", "from": "p1", "phone": "972",
    }  # fmt: skip
    assert tuple(fields_of(HoldChanged)) == ("scope", "session", "by", "group", "phone", "why", "until")
    assert encode(AlertTest("admin")) == {"by": "admin"}


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*", "message.sent", True),
        ("message.*", "message.sent", True),
        ("message.sent", "message.sent", True),
        ("message.*", "session.moved", False),
        ("message", "message.sent", False),
        ("message.se", "message.sent", False),
    ],
)
def test_patterns_select_types(pattern: str, name: str, expected: bool) -> None:
    assert matches((pattern,), name) is expected


def test_a_pattern_that_selects_nothing_is_no_pattern() -> None:
    assert all(is_pattern(pattern) for pattern in ("*", "hold.*", *(set(EventType) - INTERNAL)))
    assert not any(is_pattern(pattern) for pattern in ("message.recieved", "mesage.*", "alert.test", "", "message"))
