"""Variables without effect: misspelled settings, and settings that this version does not have. Values never appear."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.settings.compose_variables import COMPOSE

#: Planned, and read by nothing yet: an operator must not believe that they have an effect.
NOT_IN_THIS_VERSION: Final = frozenset({"LINK_TIMEOUT_MS"})
#: Read by docker compose itself.
_COMPOSE = re.compile(r"COMPOSE_\w+")
#: A variable name: words in one case. Anything else in `.env` may be a piece of a secret, as a base64 text over two
#: lines leaves one before its `=`.
_NAME = re.compile(r"(?=[A-Z\d_]+$|[a-z\d_]+$)[A-Za-z][A-Za-z\d]{0,15}(_[A-Za-z\d]{1,15})*")
#: A shell holds variables of other programs, so a name there must be closer to one of ours.
_CUTOFF_FILE, _CUTOFF_ENVIRONMENT = 0.7, 0.85


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """A variable that has no effect."""

    name: str
    where: str
    meant: str | None = None
    """The setting that was probably meant."""

    @property
    def text(self) -> str:
        """Return the warning in one line."""
        if self.name in NOT_IN_THIS_VERSION:
            return f"{self.name} ({self.where}) has no effect: this version does not have this setting."
        text = f"{self.name} ({self.where}) is not a setting and has no effect."
        return f"{text} Did you mean {self.meant}?" if self.meant else text


def in_file(lines: Mapping[str, str | None], known: Iterable[str], where: str) -> Iterator[UnknownVariable]:
    """Report every line of `.env` without effect: all of them are meant for us. None is a line without `=`."""
    names = _upper(known)
    for line, value in lines.items():
        name = line.upper()
        if value is None or not _NAME.fullmatch(line):
            yield UnknownVariable("A line that is not NAME=value", where)
        elif name not in COMPOSE and not _COMPOSE.fullmatch(name):
            yield UnknownVariable(name, where, _nearest(name, names, _CUTOFF_FILE))


def in_environment(variables: Iterable[str], known: Iterable[str]) -> Iterator[UnknownVariable]:
    """Report misspelled settings in the environment: variables with the first word of a setting that look alike."""
    names = _upper(known)
    for variable in _upper(variables):
        akin = [name for name in names if name.partition("_")[0] == variable.partition("_")[0]]
        meant = _nearest(variable, akin, _CUTOFF_ENVIRONMENT)
        if meant or variable in NOT_IN_THIS_VERSION:
            yield UnknownVariable(variable, "environment", meant)


def _upper(names: Iterable[str]) -> list[str]:
    return sorted(name.upper() for name in names)


def _nearest(name: str, known: list[str], cutoff: float) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)
