"""Places: the keys of archived rows, in the order of time.

A place is an instant in milliseconds and a number that tells rows of one millisecond apart.
"""

from typing import Final

#: Bits of a place below the milliseconds; what is above lasts until the year 2109.
SPREAD: Final = 21
LAST_PLACE: Final = 2**63 - 1
_ID_BITS: Final = 72


def place_of(at_ms: int, number: int = 0) -> int:
    return (at_ms << SPREAD) + number


def instant_of(place: int) -> int:
    """Return the milliseconds of a place."""
    return place >> SPREAD


def number_of_id(message_id: str) -> int:
    """Return the number under which a message is put among those of its millisecond, if that is free."""
    return int(message_id[2:], 16) >> (_ID_BITS - SPREAD)


def place_of_cursor(cursor: str) -> int:
    at_ms, _, number = cursor.partition("-")
    return place_of(int(at_ms), int(number or 0))


def cursor_of(place: int) -> str:
    return f"{instant_of(place)}-{place % (1 << SPREAD)}"
