"""A pin says who may send a message, and an unknown one binds nobody."""

import pytest

from wa_orchestrator.domain.sender_pin import FIELD, Pin, is_left_behind


@pytest.mark.parametrize(
    ("fields", "pin"),
    [
        ({}, Pin.NOTHING),
        ({FIELD: ""}, Pin.NOTHING),
        ({FIELD: "phone"}, Pin.PHONE),
        ({FIELD: "session"}, Pin.SESSION),
        ({FIELD: "of a later version"}, Pin.NOTHING),
    ],
)
def test_a_pin_is_read_from_the_record_of_its_message(fields: dict[str, str], pin: Pin) -> None:
    assert Pin.of(fields) is pin


@pytest.mark.parametrize(
    ("pin", "session_phone", "left"),
    [
        (Pin.SESSION, "97252", True),
        (Pin.SESSION, "97251", False),
        (Pin.SESSION, "", False),
        (Pin.PHONE, "97252", False),
        (Pin.NOTHING, "97252", False),
    ],
)
def test_only_what_is_tied_to_a_session_is_left_behind_when_that_gets_another_phone(
    pin: Pin, session_phone: str, left: bool
) -> None:
    assert is_left_behind(pin, "97251", session_phone) is left
