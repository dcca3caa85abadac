"""Numbers in texts from outside."""

import pytest

from wa_orchestrator.domain import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_ascii_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number.parse(text) == number


@pytest.mark.parametrize("text", ["", " 1", "-1", "+1", "1.0", "1_0", "²", "٣", "9" * 19, "9" * 5000, "x"])
def test_any_other_text_is_none(text: str) -> None:
    assert whole_number.parse(text) is None
