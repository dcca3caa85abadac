"""Codes of authenticator apps and stored passwords."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wa_orchestrator.domain.access import passwords, second_factor

#: The secret and the codes of RFC 6238, cut to six digits.
RFC = b"12345678901234567890"


@pytest.mark.parametrize(
    ("at_s", "code"), [(59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")]
)
def test_codes_are_those_of_the_standard(at_s: int, code: str) -> None:
    assert second_factor.code_at(RFC, at_s // 30) == code
    assert second_factor.step_of(RFC, f" {code[:3]} {code[3:]}", at_s * 1000) == at_s // 30


@given(st.integers(-5, 5))
def test_a_code_is_valid_for_a_minute_around_its_own(late: int) -> None:
    now = 1_750_000_000 // 30
    found = second_factor.step_of(RFC, second_factor.code_at(RFC, now + late), now * 30_000)
    assert (found == now + late) is (abs(late) <= 1)


@pytest.mark.parametrize("code", ["287082", "287 082", " 287082 "])
def test_six_digits_are_a_code_of_an_app(code: str) -> None:
    assert second_factor.is_app_code(code)


@pytest.mark.parametrize("code", ["", "28708", "2870820", "a1b2c3-d4e5f6", "a1b2c3", "٢٨٧٠٨٢", "²87082"])
def test_anything_else_is_none(code: str) -> None:
    assert not second_factor.is_app_code(code)


def test_an_app_gets_the_secret_and_the_names() -> None:
    made = second_factor.uri(RFC, "Dana & Co")
    assert made.startswith(
        "otpauth://totp/WhatsApp%20Orchestrator:Dana%20%26%20Co?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    )


@settings(max_examples=3)
@given(st.text(min_size=1, max_size=40), st.binary(min_size=16, max_size=16))
def test_only_the_password_itself_matches(password: str, salt: bytes) -> None:
    stored = passwords.hashed(password, salt)
    assert passwords.matches(password, stored)
    assert not passwords.matches(password + "x", stored)


@pytest.mark.parametrize("stored", ["", passwords.NOBODY])
def test_no_password_opens_an_account_that_has_none(stored: str) -> None:
    assert not passwords.matches("", stored)
