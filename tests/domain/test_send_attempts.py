"""What a worker has held may have arrived, and is tied to its phone until a person who knows that frees it."""

import pytest

from wa_orchestrator.domain import send_attempts


@pytest.mark.parametrize(
    ("fields", "arrived", "tied"),
    [
        ({}, False, False),
        ({"attempts": "0", "claimed_at": "1750000000000"}, True, True),
        ({"claimed_at": "1750000000000", "freed": "1"}, True, False),
    ],
)
def test_what_was_held_by_a_worker_is_told_from_its_record(fields: dict[str, str], arrived: bool, tied: bool) -> None:
    assert send_attempts.may_have_arrived(fields) is arrived
    assert send_attempts.is_tied_to_its_phone(fields) is tied
