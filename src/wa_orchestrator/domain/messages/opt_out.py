"""Whether a reply asks to receive no more messages, and from whom."""

import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

DEFAULT_WORDS: frozenset[str] = frozenset({"STOP", "UNSUBSCRIBE", "הסר", "הסירו", "עצור"})
#: Categories of characters that are not letters: punctuation, symbols, accents and niqqud, spaces, control characters.
_NOT_LETTERS = ("P", "S", "M", "Z", "C")


def is_opt_out(text: str, words: Iterable[str] = DEFAULT_WORDS) -> bool:
    """Whether `text` is one of the stop words, in any case, with any punctuation; a word within a sentence is not."""
    said = bare(text)
    return bool(said) and said in _all_bare(frozenset(words))


@lru_cache(maxsize=8)  # every received message is compared with the same words
def _all_bare(words: frozenset[str]) -> frozenset[str]:
    return frozenset(map(bare, words))


def bare(text: str) -> str:
    """Return the words of a text as stop words are compared: without case, accents and punctuation."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    kept = [sign for sign in folded if sign.isspace() or not unicodedata.category(sign).startswith(_NOT_LETTERS)]
    return " ".join("".join(kept).split())


class Extent(StrEnum):
    """For which phones of ours an opt-out holds."""

    EVERY_PHONE = "every_phone"
    THIS_PHONE = "this_phone"
    """The phone to which it came, as its worker says."""


def extent_of(*, has_written: bool, is_within_rate: bool) -> Extent:
    """Decide how far a stop word reaches that a worker reports.

    `has_written`: a message has left from its phone to this person. Where none has, the worker alone says that there is
    such a person, and is believed as often as people write such words by themselves (`is_within_rate`).
    """
    return Extent.EVERY_PHONE if has_written or is_within_rate else Extent.THIS_PHONE
