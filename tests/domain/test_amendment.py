"""A message can be changed while phones still take the change, by who wrote it, once WhatsApp has it."""

import pytest

from wa_orchestrator.domain.messages import amendment
from wa_orchestrator.domain.messages.amendment import DELETABLE_MS, EDITABLE_MS, Unamendable
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus

S, U = MessageStatus, Unamendable


@pytest.mark.parametrize(
    ("kind", "status", "is_ours", "age_ms", "refusal"),
    [
        ("text", S.SENT, True, 0, None),
        ("image", S.READ, True, EDITABLE_MS, None),
        ("text", None, True, 0, None),
        ("text", S.READ, True, EDITABLE_MS + 1, U.TOO_LATE),
        ("text", S.QUEUED, True, 0, U.NOT_SENT),
        ("text", S.UNKNOWN, True, 0, U.NOT_SENT),
        ("text", None, False, 0, U.NOT_OURS),
        ("poll", S.SENT, True, 0, U.NO_WORDS),
    ],
)
def test_when_a_message_can_be_edited(
    kind: str, status: MessageStatus | None, is_ours: bool, age_ms: int, refusal: Unamendable | None
) -> None:
    assert amendment.edit_refusal(kind, status, is_ours=is_ours, sent_ms=1000, now_ms=1000 + age_ms) is refusal


@pytest.mark.parametrize(
    ("status", "is_ours", "in_group", "age_ms", "refusal"),
    [
        (S.DELIVERED, True, False, DELETABLE_MS, None),
        (S.DELIVERED, True, False, DELETABLE_MS + 1, U.TOO_LATE),
        (S.FAILED, True, False, 0, U.NOT_SENT),
        (None, False, False, 0, U.NOT_OURS),
        (None, False, True, 0, None),
    ],
)
def test_when_a_message_can_be_deleted_for_everyone(
    status: MessageStatus | None, is_ours: bool, in_group: bool, age_ms: int, refusal: Unamendable | None
) -> None:
    given = {"is_ours": is_ours, "in_group": in_group}
    assert amendment.deletion_refusal(status, sent_ms=1000, now_ms=1000 + age_ms, **given) is refusal


def test_whatever_can_be_edited_was_sent() -> None:
    for status in S:
        can = amendment.edit_refusal("text", status, is_ours=True, sent_ms=0, now_ms=0) is None
        assert can == (status in SUCCEEDED)
