"""One policy for who sends a message: what was asked, where it waits, who knows the recipient, who has most room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.messages import sender_policy
from wa_orchestrator.domain.messages.sender_policy import (
    Assignment,
    Candidate,
    Chosen,
    NoSender,
    Pin,
    Readiness,
    Why,
    Wish,
    choose,
    choose_again,
)

ONE, TWO, THREE = "972500000001", "972500000002", "972500000003"
READY, HELD, RETURNING, OFFLINE = Readiness

A = Candidate("a", ONE, READY, room_today=5)
B = Candidate("b", TWO, READY, room_today=9)
OFF = Candidate("off", THREE, OFFLINE, room_today=99)
OFF_TWIN = Candidate("off2", ONE, OFFLINE, room_today=50)
BACK_SOON = Candidate("back", "972500000004", RETURNING)
PAUSED = Candidate("paused", "972500000005", HELD)
UNLINKED = Candidate("new", "", OFFLINE, room_today=20)
ALL = [B, OFF, A, OFF_TWIN, UNLINKED, BACK_SOON, PAUSED]


@pytest.mark.parametrize(
    ("wish", "affinity", "answer"),
    [
        (Wish(), None, Chosen("b", Why.MOST_ROOM)),
        (Wish(), "a", Chosen("a", Why.SPOKE_BEFORE)),
        (Wish(), "off", Chosen("b", Why.MOST_ROOM)),
        (Wish(), "new", Chosen("b", Why.MOST_ROOM)),
        # The conversation stays with its phone, so that nothing overtakes what waits there.
        (Wish(), "off2", Chosen("a", Why.SPOKE_BEFORE)),
        (Wish(), "back", Chosen("back", Why.SPOKE_BEFORE)),
        (Wish(), "paused", Chosen("paused", Why.SPOKE_BEFORE)),
        (Wish(), "gone", Chosen("b", Why.MOST_ROOM)),
        (Wish(session_id="off"), "a", Chosen("off", Why.ASKED_SESSION)),
        (Wish(session_id="gone"), None, NoSender(Why.UNKNOWN_SESSION)),
        (Wish(session_id="a", phone=ONE), None, Chosen("a", Why.ASKED_SESSION)),
        (Wish(session_id="new", phone=ONE), None, Chosen("new", Why.ASKED_SESSION)),
        (Wish(session_id="a", phone=TWO), None, NoSender(Why.PHONE_DIFFERS)),
        (Wish(phone=ONE), "b", Chosen("a", Why.ASKED_PHONE)),
        (Wish(phone=THREE), None, Chosen("off", Why.ASKED_PHONE)),
        (Wish(phone="972500000009"), None, NoSender(Why.UNKNOWN_PHONE)),
    ],
)
def test_the_sender_of_a_new_message_is_chosen_by_wish_then_acquaintance_then_room(
    wish: Wish, affinity: str | None, answer: Chosen | NoSender
) -> None:
    assert choose(wish, ALL, affinity=affinity) == answer


def test_a_new_message_waits_for_the_linked_session_that_is_likely_to_be_ready_first() -> None:
    assert choose(Wish(), [OFF, UNLINKED, BACK_SOON, PAUSED]) == Chosen("paused", Why.NONE_READY)
    assert choose(Wish(), [OFF, UNLINKED, BACK_SOON]) == Chosen("back", Why.NONE_READY)
    assert choose(Wish(), [OFF, UNLINKED]) == Chosen("off", Why.NONE_READY)


def test_without_a_linked_session_nobody_sends_a_new_message() -> None:
    assert choose(Wish(), [UNLINKED]) == NoSender(Why.NONE_LINKED)
    assert choose(Wish(), []) == NoSender(Why.NONE_LINKED)


OWN, OWN_OFF, OWN_HELD = (Candidate("own", ONE, readiness) for readiness in (READY, OFFLINE, HELD))
OWN_MOVED, OWN_MOVED_OFF = Candidate("own", TWO, READY), Candidate("own", TWO, OFFLINE)
TWIN, TWIN_OFF, TWIN_HELD = (Candidate("twin", ONE, readiness) for readiness in (READY, OFFLINE, HELD))
OTHER = Candidate("other", THREE, READY, room_today=50)
FRIEND = Candidate("friend", TWO, READY, room_today=1)
STAYS = Why.ASSIGNED


@pytest.mark.parametrize(
    ("pin", "tied", "candidates", "answer"),
    [
        # Its own session first, then another of its phone, whatever room the others have.
        (Pin.NOTHING, False, [OWN, TWIN, OTHER, FRIEND], Chosen("own", STAYS)),
        (Pin.NOTHING, False, [OWN_OFF, TWIN, OTHER, FRIEND], Chosen("twin", STAYS)),
        (Pin.NOTHING, False, [OWN_HELD, TWIN, OTHER], Chosen("twin", STAYS)),
        # Nobody of its phone is ready: who exchanged messages with the recipient, then who has the most room.
        (Pin.NOTHING, False, [OWN_OFF, TWIN_OFF, OTHER, FRIEND], Chosen("friend", Why.SPOKE_BEFORE)),
        (Pin.NOTHING, False, [OWN_OFF, A, OTHER], Chosen("a", STAYS)),
        (Pin.NOTHING, False, [OWN_OFF, B, OTHER], Chosen("other", Why.MOST_ROOM)),
        # It follows its own session to another phone rather than change to another session.
        (Pin.NOTHING, False, [OWN_MOVED, OTHER, FRIEND], Chosen("own", STAYS)),
        (Pin.NOTHING, False, [OWN_MOVED, TWIN, OTHER], Chosen("twin", STAYS)),
        # Nobody is ready: it waits for its phone, then for its session. One on hold ends sooner than one offline.
        (Pin.NOTHING, False, [OWN_OFF, TWIN_OFF, OFF], Chosen("own", STAYS)),
        (Pin.NOTHING, False, [OWN_OFF, TWIN_HELD], Chosen("twin", STAYS)),
        (Pin.NOTHING, False, [OWN_MOVED_OFF, TWIN_OFF], Chosen("twin", STAYS)),
        (Pin.NOTHING, False, [OWN_MOVED_OFF, OFF], Chosen("own", STAYS)),
        (Pin.NOTHING, False, [OFF], Chosen("off", Why.NONE_READY)),
        (Pin.NOTHING, False, [OFF, BACK_SOON, UNLINKED], Chosen("back", Why.NONE_READY)),
        (Pin.NOTHING, False, [UNLINKED], NoSender(Why.NONE_LINKED)),
        # The recipient may have it from its phone: no other phone sends it, however ready.
        (Pin.NOTHING, True, [OTHER, FRIEND], NoSender(Why.NONE_LINKED)),
        (Pin.NOTHING, True, [OWN_OFF, OTHER], Chosen("own", STAYS)),
        (Pin.NOTHING, True, [TWIN_OFF, OWN_MOVED, OTHER], Chosen("twin", STAYS)),
        (Pin.NOTHING, True, [OWN_MOVED, OTHER], Chosen("own", STAYS)),
        # The client named the phone.
        (Pin.PHONE, False, [OWN_OFF, TWIN, OTHER], Chosen("twin", Why.ASKED_PHONE)),
        (Pin.PHONE, False, [OWN_OFF, TWIN_OFF, OTHER], Chosen("own", Why.ASKED_PHONE)),
        (Pin.PHONE, False, [OWN_MOVED, OTHER], NoSender(Why.UNKNOWN_PHONE)),
        # The client named the session.
        (Pin.SESSION, False, [OWN_OFF, TWIN, OTHER], Chosen("own", Why.ASKED_SESSION)),
        (Pin.SESSION, False, [OWN_MOVED_OFF, TWIN], Chosen("own", Why.ASKED_SESSION)),
        (Pin.SESSION, False, [TWIN, OTHER], NoSender(Why.UNKNOWN_SESSION)),
    ],
)
def test_the_sender_of_a_waiting_message_changes_no_more_than_it_must(
    pin: Pin, tied: bool, candidates: list[Candidate], answer: Chosen | NoSender
) -> None:
    assert choose_again(Assignment("own", ONE, pin, tied), candidates, affinity="friend") == answer


ids = st.text("abcd", min_size=1, max_size=1)
phones = st.sampled_from([ONE, TWO])
pools = st.lists(
    st.builds(
        Candidate,
        session_id=st.text("abcdef", min_size=1, max_size=2),
        phone=phones | st.just(""),
        readiness=st.sampled_from(Readiness),
        room_today=st.integers(0, 3),
    ),
    unique_by=lambda candidate: candidate.session_id,
)
assignments = st.builds(Assignment, ids, phones, st.sampled_from(Pin), st.booleans())


@quick
@given(pools, st.builds(Wish, st.none() | ids, st.none() | phones), st.none() | assignments, st.data())
def test_the_answer_does_not_depend_on_the_order_and_never_replaces_what_was_asked(
    pool: list[Candidate], wish: Wish, current: Assignment | None, data: st.DataObject
) -> None:
    answer = choose(wish, pool, affinity="b", current=current)
    assert choose(wish, data.draw(st.permutations(pool)), affinity="b", current=current) == answer
    if isinstance(answer, Chosen):
        chosen = next(candidate for candidate in pool if candidate.session_id == answer.session_id)
        assert wish.session_id in {None, chosen.session_id}
        assert wish.phone is None or chosen.phone in {wish.phone, ""}
        assert chosen.phone or wish.session_id is not None or current is not None


@quick
@given(pools, assignments, st.none() | ids)
def test_a_message_that_may_have_arrived_is_never_given_to_another_session_of_another_phone(
    pool: list[Candidate], current: Assignment, affinity: str | None
) -> None:
    answer = choose_again(current, pool, affinity=affinity)
    if isinstance(answer, Chosen) and (current.tied or current.pin is Pin.PHONE):
        chosen = next(candidate for candidate in pool if candidate.session_id == answer.session_id)
        assert chosen.phone == current.phone or chosen.session_id == current.session_id


@quick
@given(pools, assignments, st.none() | ids)
def test_a_message_waits_only_where_no_session_that_may_send_it_is_ready(
    pool: list[Candidate], current: Assignment, affinity: str | None
) -> None:
    answer = choose_again(current, pool, affinity=affinity)
    chosen = next((each for each in pool if isinstance(answer, Chosen) and each.session_id == answer.session_id), None)
    if chosen is None or chosen.readiness is not READY:
        assert not any(_may_send(each, current) and each.readiness is READY for each in pool)


def _may_send(candidate: Candidate, current: Assignment) -> bool:
    match current.pin:
        case Pin.SESSION:
            return candidate.session_id == current.session_id
        case Pin.PHONE:
            return candidate.phone == current.phone
        case Pin.NOTHING:
            return candidate.phone == current.phone if current.tied else candidate.phone != ""


@pytest.mark.parametrize(
    ("stored", "pin"),
    [
        ("", Pin.NOTHING),
        ("phone", Pin.PHONE),
        ("session", Pin.SESSION),
        ("of a later version", Pin.NOTHING),
    ],
)
def test_a_pin_that_only_a_newer_version_knows_reads_as_none(stored: str, pin: Pin) -> None:
    assert Pin(stored) is pin


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
def test_only_what_is_pinned_to_a_session_is_left_behind_when_that_gets_another_phone(
    pin: Pin, session_phone: str, left: bool
) -> None:
    assert sender_policy.is_left_behind(pin, "97251", session_phone) is left


@pytest.mark.parametrize(
    ("claimed_at_ms", "freed", "arrived", "tied"),
    [
        (0, False, False, False),
        (1_750_000_000_000, False, True, True),
        (1_750_000_000_000, True, True, False),
    ],
)
def test_a_message_that_a_worker_held_is_tied_to_its_phone_until_it_is_freed(
    claimed_at_ms: int, freed: bool, arrived: bool, tied: bool
) -> None:
    assert sender_policy.may_have_arrived(claimed_at_ms) is arrived
    assert sender_policy.is_tied_to_its_phone(claimed_at_ms, freed=freed) is tied
