"""A synopsis of the documents (`sessions restart | stop SESSION [--yes]`) as commands, each with every option it names."""

import re
from collections.abc import Iterator, Sequence

_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|\[|\]|[^\s\[\]]+")
_NAME = re.compile(r"[a-z][a-z-]*")
_PLACE = re.compile(r"([A-Z]+)…")
BAR = "|"


def expand(text: str) -> list[list[str]]:
    """Return the commands that a synopsis describes, as words; capital words still stand for something.

    Brackets are taken as given, `a|b` and `[--a | --b]` as their first. What follows the last of several names without
    arguments of their own is for all of them.
    """
    parts = _split(list(_unbracketed(iter(_TOKEN.findall(text)))))
    first, others = parts[0], parts[1:]
    if not others:
        return [first]
    names = _leading(first, _NAME)
    commands = []
    for part in parts:
        is_option = others[0][0].startswith("-")
        prefix = _before_options(first) if is_option else names[:-1]
        own = part[len(prefix) :] if part is first else part
        shared = parts[-1][1:] if len(own) == 1 and not own[0].startswith("-") else []
        commands.append([*prefix, *own, *(shared if part is not parts[-1] else [])])
    return commands


def _unbracketed(tokens: Iterator[str]) -> Iterator[str]:
    """Yield the words; of a bracket with several choices, the first."""
    for token in tokens:
        if token == "[":
            yield from _split(list(_unbracketed(tokens)))[0]
        elif token == "]":
            return
        elif token != "…":
            yield token if token == BAR or token[0] in "\"'" else _PLACE.sub(r"\1", token.partition(BAR)[0])


def _split(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == BAR:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _leading(words: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    found = []
    for word in words:
        if not pattern.fullmatch(word):
            break
        found.append(word)
    return found


def _before_options(words: Sequence[str]) -> list[str]:
    return _leading(words, re.compile(r"[^-].*"))
