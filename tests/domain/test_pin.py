"""A pin says who may send a message, and an unknown one binds nobody."""

import pytest

from wa_orchestrator.domain.pin import FIELD, Pin


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
