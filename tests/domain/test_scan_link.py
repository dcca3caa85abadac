"""What the page of a one-time link shows."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.sessions.scan_link import MOST_TRIES, GuestFacts, GuestStage, stage_of
from wa_orchestrator.domain.sessions.session import Reason, State

NEW = GuestFacts(
    made_at=1000,
    started_at=0,
    tries=0,
    connected_at=0,
    status=State.QR_READY,
    reason=Reason.SCAN_THE_CODE,
    has_code=True,
)
PRESSED = replace(NEW, started_at=2000, tries=1)
RAN_OUT = replace(PRESSED, status=State.FAILED, reason=Reason.QR_EXPIRED, has_code=False)


@pytest.mark.parametrize(
    ("facts", "stage"),
    [
        (NEW, GuestStage.START),
        (PRESSED, GuestStage.CODE),
        (replace(PRESSED, reason=Reason.SCAN_AGAIN), GuestStage.AGAIN),
        (replace(PRESSED, has_code=False), GuestStage.WAIT),
        (replace(PRESSED, status=State.PENDING, has_code=False), GuestStage.WAIT),
        (RAN_OUT, GuestStage.RAN_OUT),
        (replace(RAN_OUT, tries=MOST_TRIES), GuestStage.GONE),
        (replace(PRESSED, status=State.STOPPED), GuestStage.GONE),
        (replace(PRESSED, status=State.CONNECTED, connected_at=3000), GuestStage.DONE),
        (replace(NEW, status=State.CONNECTED, connected_at=3000), GuestStage.GONE),
    ],
)
def test_what_is_shown(facts: GuestFacts, stage: GuestStage) -> None:
    assert stage_of(facts) is stage


@given(
    st.builds(
        GuestFacts,
        made_at=st.just(1000),
        started_at=st.sampled_from([0, 2000]),
        tries=st.integers(0, 5),
        connected_at=st.sampled_from([0, 500, 1000, 3000]),
        status=st.sampled_from(State),
        reason=st.none() | st.sampled_from(Reason),
        has_code=st.booleans(),
    )
)
def test_no_code_is_shown_before_the_button_is_pressed_or_after_one_success(facts: GuestFacts) -> None:
    if stage_of(facts) in (GuestStage.CODE, GuestStage.AGAIN):
        assert facts.started_at
        assert facts.connected_at < facts.made_at
