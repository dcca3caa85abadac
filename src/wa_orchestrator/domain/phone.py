"""Phone numbers as WhatsApp writes them: the country code and the number, digits only."""

import re

from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.errors import Refused

SHORTEST = 8
LONGEST = 15
_ORNAMENT = re.compile(r"[\s\-.()\u00a0\u2010-\u2015\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_DIGITS = re.compile(r"[0-9]+")


class BadPhone(Refused):
    """The text is not a phone number; the message says what to write instead."""

    def __init__(self, text: str) -> None:
        super().__init__("BAD_PHONE", text)


class LocalNumbers:
    """How a number without a country code is read: its leading 0 stands for this one; '' refuses it.

    Set when a process starts, from DEFAULT_COUNTRY, and not passed along: validators of requests get no settings.
    """

    country_code = ""


def parse(text: str) -> Phone:
    """Return the digits of `text`; a leading plus, spaces, dashes, dots and parentheses are dropped."""
    digits = text
    if not _DIGITS.fullmatch(text):
        digits = _ORNAMENT.sub("", text).removeprefix("+")
        if not _DIGITS.fullmatch(digits):
            problem = "has digits only" if digits else "is missing"
            raise BadPhone(f"A phone number {problem}. Write the country code and the number, such as 972501234567.")
    if digits.startswith("0") and "+" not in text and (code := LocalNumbers.country_code):
        digits = digits[2:] if digits.startswith("00") else code + digits[1:]
    if digits.startswith("0"):
        raise BadPhone(
            "A phone number begins with its country code, and none begins with 0. Write 972501234567 for 0501234567."
        )
    if not SHORTEST <= len(digits) <= LONGEST:
        raise BadPhone(
            f"A phone number has {SHORTEST} to {LONGEST} digits with its country code; this one has {len(digits)}."
        )
    return Phone(digits)


def last_four(phone: str) -> str:
    """Return what a log may show of a phone: its last four digits."""
    return phone[-4:]
