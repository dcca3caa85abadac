"""Variables that nobody reads: misspelled settings, which would do nothing in silence. Values are never told."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

#: Read by the compose file, and by docker compose itself.
_OF_COMPOSE = re.compile(r"WA_DATA_DIR|COMPOSE_\w+")
#: What a name looks like: words in one case. Anything else in `.env` may be a piece of a secret, as a base64 text over
#: two lines leaves one before its `=`.
_NAME = re.compile(r"(?=[A-Z\d_]+$|[a-z\d_]+$)[A-Za-z][A-Za-z\d]{0,15}(_[A-Za-z\d]{1,15})*")
_ALIKE_IN_FILE, _ALIKE_IN_SHELL = 0.7, 0.85


@dataclass(frozen=True, slots=True)
class Unread:
    """A variable that means nothing here."""

    name: str
    where: str
    meant: str | None
    """The setting that was probably meant."""

    @property
    def text(self) -> str:
        """Say it to a person in one line."""
        told = f"{self.name} ({self.where}) is no setting of this product and does nothing."
        return f"{told} Did you mean {self.meant}?" if self.meant else told


def in_file(variables: Mapping[str, str | None], known: Iterable[str], where: str) -> Iterator[Unread]:
    """Find the lines of `.env` that do nothing: all of them are meant for us. None is a line without `=`."""
    names = sorted(known)
    for name, value in variables.items():
        if _OF_COMPOSE.fullmatch(name.upper()):
            continue
        if value is None or not _NAME.fullmatch(name):
            yield Unread("A line that is not NAME=value", where, None)
        else:
            yield Unread(name.upper(), where, _nearest(name.upper(), names, _ALIKE_IN_FILE))


def in_shell(variables: Iterable[str], known: Iterable[str]) -> Iterator[Unread]:
    """Find misspelled settings among a shell's own variables: those that begin with a word of ours and look alike."""
    names = sorted(known)
    for variable in sorted(variables):
        akin = [name for name in names if name.partition("_")[0] == variable.partition("_")[0]]
        if meant := _nearest(variable, akin, _ALIKE_IN_SHELL):
            yield Unread(variable, "environment", meant)


def _nearest(name: str, known: list[str], alike: float) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=alike)), None)
