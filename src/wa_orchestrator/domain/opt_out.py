"""Whether a reply asks to receive no more messages."""

import unicodedata
from collections.abc import Iterable

DEFAULT_WORDS: frozenset[str] = frozenset({"STOP", "UNSUBSCRIBE", "הסר", "הסירו", "עצור"})
#: Categories of characters that are not letters: punctuation, symbols, accents and niqqud, spaces, control characters.
_NOT_LETTERS = ("P", "S", "M", "Z", "C")


def is_opt_out(text: str, words: Iterable[str] = DEFAULT_WORDS) -> bool:
    """Whether `text` is one of the stop words, in any case, with any punctuation; a word within a sentence is not."""
    bare = _bare(text)
    return bool(bare) and bare in {_bare(word) for word in words}


def _bare(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text.casefold())
    kept = [sign for sign in folded if sign.isspace() or not unicodedata.category(sign).startswith(_NOT_LETTERS)]
    return " ".join("".join(kept).split())
