"""A message moves forward, with a few named exceptions, and success is never undone."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.messages import message
from wa_orchestrator.domain.messages.message import MessageStatus, may_become

ORDER = list(MessageStatus)


@pytest.mark.parametrize(
    ("had", "given_up"),
    list(product(sorted(message.SUCCEEDED), [MessageStatus.FAILED, MessageStatus.EXPIRED, MessageStatus.CANCELLED])),
)
def test_success_beats_every_way_of_giving_up(had: MessageStatus, given_up: MessageStatus) -> None:
    assert may_become(given_up, had)
    assert not may_become(had, given_up)


def test_only_the_named_transitions_lead_back() -> None:
    for before, after in product(MessageStatus, MessageStatus):
        if may_become(before, after) and (before, after) not in message.BACK:
            assert ORDER.index(after) > ORDER.index(before)


def test_all_transitions_back_lead_to_the_queue() -> None:
    assert all(may_become(*step) and step[1] is MessageStatus.QUEUED for step in message.BACK)
    assert not may_become(MessageStatus.SENT, MessageStatus.QUEUED)
    assert not may_become(MessageStatus.CANCELLED, MessageStatus.QUEUED)


@quick
@given(st.binary(min_size=9, max_size=9))
def test_a_whatsapp_id_has_the_format_that_baileys_uses(random: bytes) -> None:
    made = message.whatsapp_id(random)
    assert made.startswith("3EB0")
    assert len(made) == 22
    assert message.message_id_of(made)


@pytest.mark.parametrize(
    "text", ["", "3EB0", "3EB0" + "a" * 18, "3EB0" + "G" * 18, "4EB0" + "A" * 18, "3EB0" + "A" * 19]
)
def test_another_format_is_not_a_whatsapp_id(text: str) -> None:
    assert not message.message_id_of(text)


def test_too_few_random_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="9 random bytes"):
        message.whatsapp_id(b"short")
