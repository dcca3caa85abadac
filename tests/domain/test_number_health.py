"""A number's health is told with its evidence, and a message to a stranger is warned of for a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain import number_health
from wa_orchestrator.domain.number_health import (
    MANY_IN_A_ROW,
    HealthEvidence,
    HealthLevel,
    NumberStanding,
    StrangerWarning,
    WarningCode,
)
from wa_orchestrator.domain.pacing.limits import DAY_MS, Trust

GOOD, POOR, TOO_FEW = HealthLevel.GOOD, HealthLevel.POOR, HealthLevel.TOO_FEW


@pytest.mark.parametrize(
    ("evidence", "levels", "level"),
    [
        (HealthEvidence(), (TOO_FEW, TOO_FEW, TOO_FEW), TOO_FEW),
        (HealthEvidence(written=19), (TOO_FEW, TOO_FEW, TOO_FEW), TOO_FEW),
        (HealthEvidence(written=20, answered=1), (POOR, TOO_FEW, TOO_FEW), POOR),
        (HealthEvidence(written=20, answered=2), (GOOD, TOO_FEW, TOO_FEW), GOOD),
        (HealthEvidence(delivered=49), (TOO_FEW, TOO_FEW, TOO_FEW), TOO_FEW),
        (HealthEvidence(delivered=50, read=9), (TOO_FEW, POOR, TOO_FEW), POOR),
        (HealthEvidence(delivered=50, read=10), (TOO_FEW, GOOD, TOO_FEW), GOOD),
        (HealthEvidence(tried=50), (TOO_FEW, TOO_FEW, GOOD), GOOD),
        (HealthEvidence(tried=1, refused=1), (TOO_FEW, TOO_FEW, POOR), POOR),
        (HealthEvidence(written=20, answered=20, delivered=50, read=50, tried=90, refused=1), (GOOD, GOOD, POOR), POOR),
    ],
)
def test_each_signal_says_what_its_counts_allow_and_the_worst_decides(
    evidence: HealthEvidence, levels: tuple[HealthLevel, ...], level: HealthLevel
) -> None:
    health = number_health.judge(evidence)
    assert tuple(each.level for each in health.signals) == levels
    assert health.level is level


def test_the_evidence_is_told_with_how_many_and_since_when() -> None:
    evidence = HealthEvidence(
        written=40, answered=8, people_since_ms=1, delivered=60, read=45, read_since_ms=2,
        tried=70, refused=3, tried_since_ms=4, strangers=6,
    )  # fmt: skip
    health = number_health.judge(evidence)
    told = [(each.signal, each.count, each.of, each.since_ms) for each in health.signals]
    assert told == [("ANSWERS", 8, 40, 1), ("UNREAD", 15, 60, 2), ("REFUSALS", 3, 70, 4)]
    assert health.strangers == 6


def test_messages_that_were_read_later_than_the_days_that_count_are_not_unread_less_than_none() -> None:
    assert number_health.judge(HealthEvidence(delivered=50, read=60)).signals[1].count == 0


@given(st.integers(0, 500), st.integers(0, 500))
def test_more_answers_never_make_a_number_worse(written: int, answered: int) -> None:
    some = min(written, answered)
    one_less = HealthEvidence(written=written, answered=max(0, some - 1))
    levels = [number_health.judge(each).level for each in (one_less, HealthEvidence(written=written, answered=some))]
    assert levels != [GOOD, POOR]


@pytest.mark.parametrize(
    ("standing", "before", "codes"),
    [
        (NumberStanding(), 0, []),
        (NumberStanding(Trust.COLD, 1), 0, [("NEW_NUMBER", 1)]),
        (NumberStanding(Trust.WARM, 5), 0, []),
        (NumberStanding(strangers=MANY_IN_A_ROW - 1), 0, []),
        (NumberStanding(strangers=MANY_IN_A_ROW - 1), 1, [("STRANGERS_IN_A_ROW", MANY_IN_A_ROW)]),
        (NumberStanding(is_poor=True), 0, [("POOR_HEALTH", None)]),
        (
            NumberStanding(Trust.COLD, 0, 30, is_poor=True),
            2,
            [("NEW_NUMBER", 0), ("STRANGERS_IN_A_ROW", 32), ("POOR_HEALTH", None)],
        ),
    ],
)
def test_a_message_to_a_stranger_is_warned_of_with_every_reason(
    standing: NumberStanding, before: int, codes: list[tuple[str, int | None]]
) -> None:
    assert [(each.code, each.count) for each in standing.warnings(before)] == codes


def test_a_number_without_any_reason_for_a_warning_is_not_watched() -> None:
    assert not NumberStanding(Trust.WARM, 5, MANY_IN_A_ROW - 1).is_watched
    assert NumberStanding(Trust.COLD).is_watched


@pytest.mark.parametrize(
    ("first_ms", "now_ms", "days"), [(0, 5 * DAY_MS, 0), (DAY_MS, 5 * DAY_MS - 1, 3), (9 * DAY_MS, DAY_MS, 0)]
)
def test_a_standing_counts_whole_days_since_the_phone_was_linked(first_ms: int, now_ms: int, days: int) -> None:
    made = number_health.standing(Trust.COLD, first_ms, now_ms, strangers=3, is_poor=True)
    assert made == NumberStanding(Trust.COLD, days, 3, is_poor=True)


def test_a_campaign_is_warned_of_when_many_of_its_recipients_never_wrote() -> None:
    few = {"never_wrote": MANY_IN_A_ROW - 1, "new_senders": 1, "poor_senders": 1}
    assert number_health.campaign_warnings(**few) == ()
    many = number_health.campaign_warnings(never_wrote=MANY_IN_A_ROW, new_senders=0, poor_senders=2)
    assert many == (
        StrangerWarning(WarningCode.STRANGERS_IN_A_ROW, MANY_IN_A_ROW),
        StrangerWarning(WarningCode.POOR_HEALTH, 2),
    )
