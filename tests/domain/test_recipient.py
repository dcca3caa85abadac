"""A recipient has one spelling, however it is written, and what is none is refused with what to write instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain import recipient
from wa_orchestrator.domain.recipient import Username
from wa_orchestrator.errors import Refused


@pytest.mark.parametrize(
    ("written", "spelled", "address"),
    [
        ("+972 50-123-4567", "972501234567", "972501234567"),
        ("972501234567@s.whatsapp.net", "972501234567", "972501234567"),
        ("lid:123456789012345", "lid:123456789012345", "123456789012345@lid"),
        ("123456789012345@lid", "lid:123456789012345", "123456789012345@lid"),
        (" 120363025246125486@g.us ", "120363025246125486@g.us", "120363025246125486@g.us"),
        ("972501234567-1600000000@g.us", "972501234567-1600000000@g.us", "972501234567-1600000000@g.us"),
    ],
)
def test_a_recipient_has_one_spelling_and_one_address(written: str, spelled: str, address: str) -> None:
    assert recipient.parse(written) == spelled
    assert recipient.parse(spelled) == spelled
    assert recipient.address(spelled) == address


@pytest.mark.parametrize("text", ["", "lid:", "lid:12a45", "x@lid", "x@g.us", "a group", "050123", "12345@newsletter"])
def test_what_is_no_recipient_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        recipient.parse(text)


@pytest.mark.parametrize(
    ("written", "spelled", "username"),
    [
        (" @Dana.Levi ", "@dana.levi", Username("dana.levi")),
        ("@dana_1:0042", "@dana_1:0042", Username("dana_1", "0042")),
        ("+972 50-123-4567", "972501234567", None),
        ("lid:123456789012345", "lid:123456789012345", None),
    ],
)
def test_a_message_may_name_a_username(written: str, spelled: str, username: Username | None) -> None:
    assert recipient.parse_with_username(written) == spelled
    assert recipient.username_of(spelled) == username


@pytest.mark.parametrize("text", ["@", "@ab", "@1234", "@dana levi", "@dana:12", f"@{'a' * 36}", "@dana@lid", "@דנה"])
def test_what_is_no_username_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="@name"):
        recipient.parse_with_username(text)


def test_where_only_an_address_will_do_a_username_is_refused() -> None:
    with pytest.raises(Refused, match="username"):
        recipient.parse("@dana.levi")


def test_kinds_of_recipients_are_told_apart() -> None:
    phone, long_phone, lid, group = "972501234567", "97250123456789", "lid:123456789012345", "120363025246125486@g.us"
    assert [recipient.is_phone(each) for each in (phone, lid, group)] == [True, False, False]
    assert [recipient.is_group(each) for each in (phone, lid, group)] == [False, False, True]
    assert [recipient.lid_of(each) for each in (phone, lid, group)] == ["", "123456789012345", ""]
    assert [recipient.may_be_lid(each) for each in (phone, long_phone, lid)] == [False, True, False]


@given(st.text(max_size=40))
def test_whatever_is_written_a_worker_is_told_an_address_that_cannot_break_out_of_it(text: str) -> None:
    try:
        spelled = recipient.parse(text)
    except Refused:
        return
    assert all(letter in "0123456789-@glidus." for letter in recipient.address(spelled))


def test_digits_of_a_lid_are_refused_as_a_phone_with_the_form_to_write() -> None:
    refused = recipient.lid_refusal("123456789012345")
    assert (refused.code, refused.status) == ("RECIPIENT_IS_LID", 422)
    assert "lid:123456789012345" in str(refused)
