"""The sender is the one asked for, else the one that knows the recipient, else the one with the most room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.routing import Candidate, Chosen, NoSender, Why, Wish, choose

A = Candidate("a", "972500000001", usable=True, room_today=5)
B = Candidate("b", "972500000002", usable=True, room_today=9)
OFF = Candidate("off", "972500000003", usable=False, room_today=99)
OFF_TWIN = Candidate("off2", "972500000001", usable=False, room_today=50)
UNLINKED = Candidate("new", None, usable=False, room_today=20)
ALL = [B, OFF, A, OFF_TWIN, UNLINKED]


@pytest.mark.parametrize(
    ("wish", "affinity", "answer"),
    [
        (Wish(), None, Chosen("b", Why.MOST_ROOM)),
        (Wish(), "a", Chosen("a", Why.SPOKE_BEFORE)),
        (Wish(), "off", Chosen("b", Why.MOST_ROOM)),
        (Wish(), "gone", Chosen("b", Why.MOST_ROOM)),
        (Wish(session_id="off"), "a", Chosen("off", Why.ASKED_SESSION)),
        (Wish(session_id="gone"), None, NoSender(Why.UNKNOWN_SESSION)),
        (Wish(session_id="a", phone="972500000001"), None, Chosen("a", Why.ASKED_SESSION)),
        (Wish(session_id="new", phone="972500000001"), None, Chosen("new", Why.ASKED_SESSION)),
        (Wish(session_id="a", phone="972500000002"), None, NoSender(Why.PHONE_DIFFERS)),
        (Wish(phone="972500000001"), "b", Chosen("a", Why.ASKED_PHONE)),
        (Wish(phone="972500000003"), None, Chosen("off", Why.ASKED_PHONE)),
        (Wish(phone="972500000009"), None, NoSender(Why.UNKNOWN_PHONE)),
    ],
)
def test_the_sender_is_chosen_by_wish_then_acquaintance_then_room(
    wish: Wish, affinity: str | None, answer: Chosen | NoSender
) -> None:
    assert choose(wish, ALL, affinity) == answer


def test_without_a_usable_session_nobody_sends() -> None:
    assert choose(Wish(), [OFF, UNLINKED]) == NoSender(Why.NONE_USABLE)


candidates = st.lists(
    st.builds(
        Candidate,
        session_id=st.text("abcdef", min_size=1, max_size=2),
        phone=st.sampled_from(["972500000001", "972500000002", None]),
        usable=st.booleans(),
        room_today=st.integers(0, 3),
    ),
    unique_by=lambda candidate: candidate.session_id,
)


@quick
@given(candidates, st.builds(Wish, st.none() | st.just("a"), st.none() | st.just("972500000001")), st.data())
def test_the_answer_does_not_depend_on_the_order_and_never_replaces_what_was_asked(
    known: list[Candidate], wish: Wish, data: st.DataObject
) -> None:
    answer = choose(wish, known, "b")
    assert choose(wish, data.draw(st.permutations(known)), "b") == answer
    if isinstance(answer, Chosen):
        chosen = next(candidate for candidate in known if candidate.session_id == answer.session_id)
        assert wish.session_id in {None, chosen.session_id}
        assert wish.phone is None or chosen.phone in {wish.phone, None}
        assert chosen.usable or wish != Wish()
