"""Reads the texts: a language is a TOML file in this folder, and `xx.toml` is all that a new one needs.

A text that a language does not have yet is shown in English.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
DEFAULT: Final = "en"
#: Their own sentences say that the recipient may have the message, and that a retry may leave from another phone.
_LEAVE_FROM_ANOTHER_PHONE: Final = frozenset({"SESSION_RELINKED", "SENDER_LOST"})


@cache
def languages() -> tuple[str, ...]:
    """Return the codes of all languages that have a file, English first."""
    return DEFAULT, *sorted({path.stem for path in FOLDER.glob("*.toml")} - {DEFAULT})


@cache
def texts(language: str) -> Mapping[str, str]:
    """Return all texts of a language by their dotted names."""
    return read(DEFAULT) | read(language)


def text(language: str, name: str) -> str:
    """Return the text of this name; empty if there is none, for codes that a newer or older version stored."""
    return texts(language).get(name, "")


def proxy_failure(language: str, stored: str) -> str:
    """Return why a proxy is bad, from a stored `CODE` or `CODE:detail`; older versions stored the sentence itself."""
    code, _, detail = stored.partition(":")
    sentence = text(language, f"proxy_failure.{code}")
    return sentence.format(detail=text(language, f"proxy_failure_detail.{code}.{detail}") or detail) or stored


def message_failure(language: str, code: str, status: str) -> str:
    """Return why a message was not sent: it is tried again or, where its status says so, was given up."""
    if status == "unknown" and code not in _LEAVE_FROM_ANOTHER_PHONE:
        return text(language, "message_unknown.text")
    given_up = text(language, f"message_given_up.{code}") if status == "failed" else ""
    return given_up or text(language, f"message_failure.{code}")


def read(language: str) -> dict[str, str]:
    """Read one language's file, without the English texts for what it lacks."""
    return dict(_flat(tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8")), ""))


def _flat(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)
