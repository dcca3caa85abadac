"""How quickly linked sessions come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.sessions.restart_pace import longest_pause_ms, pause_ms


@pytest.mark.parametrize(
    ("idle_share", "dice", "expected_ms"),
    [(1.0, 0.5, 100), (1.0, 0.0, 50), (1.0, 1.0, 150), (0.0, 0.5, 200), (0.05, 1.0, 300), (0.1, 0.5, 100)],
)
def test_the_pause_is_drawn_around_the_interval_and_twice_as_long_on_a_busy_machine(
    idle_share: float, dice: float, expected_ms: int
) -> None:
    assert pause_ms(100, idle_share=idle_share, dice=dice) == expected_ms


@given(
    interval_ms=st.integers(0, 100_000),
    idle_share=st.floats(0, 1),
    dice=st.floats(0, 1),
)
def test_a_pause_is_never_shorter_than_half_the_interval_nor_longer_than_the_longest(
    interval_ms: int, idle_share: float, dice: float
) -> None:
    pause = pause_ms(interval_ms, idle_share=idle_share, dice=dice)
    assert interval_ms // 2 <= pause <= longest_pause_ms(interval_ms)
