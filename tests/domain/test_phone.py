"""Phone numbers are parsed leniently and stored strictly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain import phone


@pytest.mark.parametrize(
    "text",
    [
        "972501234567",
        "+972501234567",
        "+972 50-123-4567",
        " (972) 50.123.4567 ",
        "\u200e+972\u00a050\u2011123\u20114567",
    ],
)
def test_separators_of_a_number_are_dropped(text: str) -> None:
    assert phone.parse(text) == "972501234567"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "missing"),
        (" + ", "missing"),
        ("1234567", "has 7"),
        ("0501234567", "Write 972501234567 for 0501234567"),
        ("00972501234567", "country code"),
        ("1234567890123456", "has 16"),
        ("97250123456a", "digits only"),
        ("++972501234567", "digits only"),
        ("٠١٢٣٤٥٦٧٨٩", "digits only"),
        ("972501234567@s.whatsapp.net", "digits only"),
    ],
)
def test_an_invalid_number_is_refused_with_its_reason(text: str, says: str) -> None:
    with pytest.raises(phone.BadPhone, match=says) as refusal:
        phone.parse(text)
    assert refusal.value.code == "BAD_PHONE"


@quick
@given(st.text(alphabet="0123456789+-. ()", max_size=24))
def test_an_accepted_number_has_8_to_15_digits_and_parses_as_itself(text: str) -> None:
    try:
        digits = phone.parse(text)
    except phone.BadPhone:
        return
    assert digits.isdecimal()
    assert 8 <= len(digits) <= 15
    assert phone.parse(digits) == digits


def test_a_log_shows_the_last_four_digits() -> None:
    assert phone.last_four("972501234567") == "4567"


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("050-123 4567", "972501234567"),
        ("00 44 20 7946 0000", "442079460000"),
        ("972501234567", "972501234567"),
        ("+1 212 555 0100", "12125550100"),
    ],
)
def test_a_local_number_is_read_with_the_default_country(
    text: str, digits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phone.LocalNumbers, "country_code", "972")
    assert phone.parse(text) == digits


@pytest.mark.parametrize("text", ["+0501234567", "000501234567", "05", "0" * 12])
def test_a_default_country_makes_no_number_of_what_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phone.LocalNumbers, "country_code", "972")
    with pytest.raises(phone.BadPhone):
        phone.parse(text)
