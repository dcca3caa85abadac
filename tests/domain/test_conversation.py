"""The ids of conversations, and whether one can be answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.conversation import Device, ReplyFacts, ReplyObstacle, answering


@given(st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True), st.sampled_from(["972501234567", "lid:12", "1203@g.us"]))
def test_an_id_names_its_session_and_contact(session: str, contact: str) -> None:
    assert conversation.parse_id(conversation.id_of(session, contact)) == (session, contact)


@pytest.mark.parametrize("text", ["", "c_", "c_*", "c_dzE", "c_dzEg", "i_dzEgOTcy", "c_dzEgOTcy="])
def test_what_is_no_id_names_nothing(text: str) -> None:
    assert conversation.parse_id(text) is None


def test_a_conversation_is_kept_under_the_group_or_the_best_name_of_the_contact() -> None:
    assert conversation.contact_name("97251", "12", "34@g.us") == "34@g.us"
    assert conversation.contact_name("97251", "12", "") == "97251"
    assert conversation.contact_name("", "12", "") == "lid:12"
    assert conversation.contact_name("", "", "") == ""


def facts(**changes: object) -> ReplyFacts:
    known = {"opted_out": False, "session_exists": True, "banned": False}
    return ReplyFacts(**known | changes)  # type: ignore[arg-type]


def test_what_keeps_people_from_answering_is_said_with_the_contacts_wish_first() -> None:
    assert conversation.obstacle(facts()) is None
    assert conversation.obstacle(facts(banned=True)) is ReplyObstacle.BANNED
    assert conversation.obstacle(facts(session_exists=False, banned=True)) is ReplyObstacle.SESSION_GONE
    assert conversation.obstacle(facts(opted_out=True, session_exists=False)) is ReplyObstacle.OPTED_OUT


def device(session: str, *, connected: bool) -> Device:
    return Device(session, "972500000001", connected)


@pytest.mark.parametrize(
    ("home", "siblings", "answers"),
    [
        (True, [True], "home"),
        (False, [False, True], "s1"),
        (False, [False], "home"),
        (None, [False, True], "s1"),
        (None, [False], "s0"),
        (None, [], None),
    ],
)
def test_another_device_answers_only_while_the_one_that_has_the_conversation_is_not_connected(
    home: bool | None, siblings: list[bool], answers: str | None
) -> None:
    own = None if home is None else device("home", connected=home)
    chosen = answering(own, [device(f"s{number}", connected=each) for number, each in enumerate(siblings)])
    assert (chosen.session if chosen else None) == answers
