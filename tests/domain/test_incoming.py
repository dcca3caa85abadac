"""Incoming messages: who may change what was written before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.messages.incoming import (
    AMENDMENTS,
    FILES,
    Author,
    IncomingKind,
    id_of,
    may_amend,
    next_fetch_ms,
    parse_id,
)

DANA = Author("97251", "123")
AVI = Author("97252", "456")
US = Author(is_us=True)
GROUP = "1-2@g.us"


@pytest.mark.parametrize(
    ("kind", "author", "group", "expected"),
    [
        ("edit", DANA, None, True),
        ("edit", Author("97251", ""), None, True),  # only one name was known then
        ("edit", Author("", "123"), None, True),
        ("edit", AVI, None, False),
        ("edit", US, None, False),
        ("edit", AVI, GROUP, False),
        ("edit", None, None, True),  # it came before us
        ("deletion", DANA, None, True),
        ("deletion", US, None, False),
        ("deletion", US, GROUP, True),  # by an admin
        ("reaction", US, None, True),
        ("text", AVI, None, True),
    ],
)
def test_a_person_changes_their_own_messages_and_an_admin_deletes(
    kind: str, author: Author | None, group: str | None, expected: bool
) -> None:
    assert may_amend(IncomingKind(kind), DANA, author, group) is expected


@quick
@given(who=st.builds(Author, st.text(max_size=2), st.text(max_size=2)), kind=st.sampled_from(IncomingKind))
def test_nobody_edits_what_we_wrote(who: Author, kind: IncomingKind) -> None:
    assert may_amend(kind, who, US, None) == (kind not in (IncomingKind.EDIT, IncomingKind.DELETION))


def test_two_people_of_whom_no_common_name_is_known_are_not_one() -> None:
    assert not Author("97251", "").is_same(Author("", "123"))
    assert not Author().is_same(Author())
    assert US.is_same(US)


def test_what_amends_has_no_file() -> None:
    assert not FILES & AMENDMENTS


@quick
@given(session=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True), whatsapp_id=st.text())
def test_an_id_names_one_message_and_can_be_read(session: str, whatsapp_id: str) -> None:
    assert parse_id(id_of(session, whatsapp_id)) == (session, whatsapp_id)


@pytest.mark.parametrize(
    "text", ["", "i_", "i_!", "i_A", "m_0a1b2c3d4e5f607182", "i_/w", "i_dzEgQUJD=", "dzEgQUJD", "i_w6k"]
)
def test_what_is_no_id_of_an_incoming_message_names_none(text: str) -> None:
    assert parse_id(text) is None


@pytest.mark.parametrize(
    ("waited_ms", "wait_ms"), [(0, 30_000), (40_000, 40_000), (3_600_000, 3_600_000), (86_400_000, None)]
)
def test_a_file_that_cannot_be_had_is_tried_again_ever_more_rarely_for_a_day(
    waited_ms: int, wait_ms: int | None
) -> None:
    came, now = 1_000_000, 1_000_000 + waited_ms
    assert next_fetch_ms(came, now) == (None if wait_ms is None else now + wait_ms)
