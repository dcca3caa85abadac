"""The text of a campaign: fields such as {{name}}, filled from the columns of its file, and how to stop."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from wa_orchestrator.domain.messages.opt_out import DEFAULT_WORDS, bare

_FIELD: Final = re.compile(r"\{\{([^{}\r\n]*)\}\}")
#: One pair of braces, as some programs write a field. Here it is text, which people would read.
_SINGLE: Final = re.compile(r"\{([^\W\d][\w .-]{0,49})\}")
#: Also between two words without a space, as in "answer:STOP".
_PUNCTUATION: Final = re.compile(r"[^\w\s]")


def fields_of(text: str) -> list[str]:
    """Return the fields of a text, each once, in their order, as columns are named."""
    return list(dict.fromkeys(column(found) for found in _FIELD.findall(text)))


def has_stray_braces(text: str) -> bool:
    """Whether a text has braces outside of a field: recipients would read them."""
    rest = _FIELD.sub("", text)
    return "{{" in rest or "}}" in rest or "" in fields_of(text)


def single_braced(text: str) -> list[str]:
    """Return what a text names in single braces, each once, in its order: probably meant as fields, and none."""
    return list(dict.fromkeys(found.strip() for found in _SINGLE.findall(_FIELD.sub("", text))))


def column(name: str) -> str:
    """Return the name of a column as fields are compared: in any case, without spaces around it."""
    return " ".join(name.split()).casefold()


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text for one recipient. A value is taken as it is: braces in it are no fields."""
    return _FIELD.sub(lambda found: values[column(found[1])], text)


def tells_how_to_stop(text: str, words: Iterable[str] = DEFAULT_WORDS) -> bool:
    """Whether the text names a word that opts out, outside its fields."""
    said = f" {bare(_PUNCTUATION.sub(' ', _FIELD.sub(' ', text)))} "
    return any(f" {bare(word)} " in said for word in words)
