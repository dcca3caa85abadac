"""The words of a text, by which messages are searched: whole words, without case and accents."""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the different words of a text, in the order in which they first occur.

    One definition for both places of messages: Redis compares them here, the archive indexes what this returns.
    """
    split = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(each for each in split if not unicodedata.combining(each))
    return tuple(dict.fromkeys(_WORD.findall(unicodedata.normalize("NFKC", plain).casefold())))
