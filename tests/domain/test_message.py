"""A message moves forward, with a few named exceptions, and success is never undone."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain import message
from wa_orchestrator.domain.message import MessageStatus, join, may_become

statuses = st.sampled_from(list(MessageStatus))


@quick
@given(statuses, statuses, statuses)
def test_reports_about_a_message_join_the_same_in_every_order(
    a: MessageStatus, b: MessageStatus, c: MessageStatus
) -> None:
    assert join(a, b) == join(b, a)
    assert join(a, a) == a
    assert join(a, join(b, c)) == join(join(a, b), c)
    assert join(a, join(a, b)) == join(a, b)


@pytest.mark.parametrize(
    ("had", "given_up"),
    list(product(sorted(message.SUCCEEDED), [MessageStatus.FAILED, MessageStatus.EXPIRED, MessageStatus.CANCELLED])),
)
def test_success_beats_every_way_of_giving_up(had: MessageStatus, given_up: MessageStatus) -> None:
    assert join(given_up, had) == had
    assert may_become(given_up, had)
    assert not may_become(had, given_up)


def test_a_message_steps_back_only_where_that_is_named() -> None:
    for before, after in product(MessageStatus, MessageStatus):
        if may_become(before, after) and (before, after) not in message.BACK:
            assert join(before, after) == after != before


def test_the_named_steps_back_all_lead_to_the_queue() -> None:
    assert all(may_become(*step) and step[1] is MessageStatus.QUEUED for step in message.BACK)
    assert not may_become(MessageStatus.SENT, MessageStatus.QUEUED)
    assert not may_become(MessageStatus.CANCELLED, MessageStatus.QUEUED)


def test_what_a_worker_holds_can_neither_be_cancelled_nor_expire() -> None:
    assert not may_become(MessageStatus.SENDING, MessageStatus.CANCELLED)
    assert not may_become(MessageStatus.SENDING, MessageStatus.EXPIRED)


@quick
@given(st.lists(statuses, max_size=8), st.data())
def test_receipts_in_any_order_end_the_same(told: list[MessageStatus], data: st.DataObject) -> None:
    def ended(reports: list[MessageStatus]) -> MessageStatus:
        status = MessageStatus.SENT
        for report in reports:
            status = join(status, report)
        return status

    assert ended(data.draw(st.permutations(told + told))) == ended(told)


@quick
@given(st.binary(min_size=9, max_size=9))
def test_a_whatsapp_id_has_the_shape_that_baileys_makes(dice: bytes) -> None:
    made = message.whatsapp_id(dice)
    assert made.startswith("3EB0")
    assert len(made) == 22
    assert message.is_whatsapp_id(made)


@pytest.mark.parametrize(
    "text", ["", "3EB0", "3EB0" + "a" * 18, "3EB0" + "G" * 18, "4EB0" + "A" * 18, "3EB0" + "A" * 19]
)
def test_another_shape_is_no_whatsapp_id(text: str) -> None:
    assert not message.is_whatsapp_id(text)


def test_too_few_dice_are_refused() -> None:
    with pytest.raises(ValueError, match="9 random bytes"):
        message.whatsapp_id(b"short")
