"""Whether an operator may move a phone to the proxy that he chose."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.proxies.proxy_move import MoveFacts, MoveTime, MoveVerdict, judge

FINE = MoveFacts(healthy=True, free=4, newcomers=1, elsewhere=1, others_running=0, banned=False)


@pytest.mark.parametrize(
    ("facts", "when", "verdict"),
    [
        (FINE, MoveTime.NOW, MoveVerdict.MOVE),
        (FINE, MoveTime.RESTART, MoveVerdict.MOVE),
        (replace(FINE, elsewhere=0, banned=True), MoveTime.NOW, MoveVerdict.STAYS),
        (replace(FINE, banned=True), MoveTime.NOW, MoveVerdict.BANNED_KEEPS_PROXY),
        (replace(FINE, healthy=False), MoveTime.NOW, MoveVerdict.PROXY_BAD),
        (replace(FINE, free=0), MoveTime.NOW, MoveVerdict.PROXY_FULL),
        (replace(FINE, free=1, newcomers=2, elsewhere=2), MoveTime.NOW, MoveVerdict.STICKY_PROXY_FULL),
        (replace(FINE, others_running=1), MoveTime.NOW, MoveVerdict.MOVE),
        (replace(FINE, others_running=1), MoveTime.RESTART, MoveVerdict.MOVES_TOGETHER),
    ],
)
def test_what_becomes_of_the_choice(facts: MoveFacts, when: MoveTime, verdict: MoveVerdict) -> None:
    assert judge(facts, when) is verdict


@given(
    st.builds(
        MoveFacts,
        healthy=st.booleans(),
        free=st.integers(0, 4),
        newcomers=st.integers(0, 4),
        elsewhere=st.integers(0, 4),
        others_running=st.integers(0, 3),
        banned=st.booleans(),
    ),
    st.sampled_from(MoveTime),
)
def test_nothing_ever_moves_to_a_proxy_without_room_for_the_whole_phone_nor_a_banned_account(
    facts: MoveFacts, when: MoveTime
) -> None:
    if judge(facts, when) is MoveVerdict.MOVE:
        assert facts.healthy
        assert facts.newcomers <= facts.free
        assert not facts.banned
        assert when is MoveTime.NOW or not facts.others_running
