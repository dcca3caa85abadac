"""Whole numbers in texts from outside."""

from typing import Final

#: As many as a signed 64-bit number always has room for; SQLite and Redis take no more.
_MOST_DIGITS: Final = 18


def parse(text: str) -> int | None:
    """Return the number that a text of 1 to 18 ASCII digits spells; None for any other text.

    `str.isdigit` alone is not enough: it is true of "²" and of thousands of digits, and `int` refuses both.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
