"""Every guard of the scripts as a mutant: the same script without it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.store.engine.scripts import FILES, read_sources

_MARK: Final = re.compile(r"-- (?:guard: (?P<guard>\w+)|(?P<rearm>rearm: \w+))$")
#: Conditions inside a larger one: what stands there, and what is left without the guard.
_WITHIN: Final = {"slot": ("load < most and ", ""), "slot_healthy": ("status == 'OK' and ", "")}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A guard by its name, the line that holds it, and that line without it."""

    guard: str
    line: str
    without: str

    def sources(self) -> dict[str, str]:
        """All scripts, with this guard gone from each of them."""
        return {name: text.replace(self.line, self.without) for name, text in read_sources().items()}


def mutants() -> Iterator[Mutant]:
    """One mutant for every mark in the Lua files."""
    for path in FILES.values():
        for line in path.read_text(encoding="utf-8").splitlines():
            mark = _MARK.search(line)
            if mark:
                yield from _of_line(mark["guard"] or mark["rearm"], line)


def _of_line(guard: str, line: str) -> Iterator[Mutant]:
    if guard.startswith("rearm"):
        yield Mutant(guard, line, re.sub(r"end_flight\(now, .*\) --", "end_flight(now, 0) --", line))
    elif guard == "slot":
        yield from (Mutant(name, line, line.replace(was, left)) for name, (was, left) in _WITHIN.items())
    elif re.search(r"\bend --|^\s*redis\.call", line):
        yield Mutant(guard, line, "")
    else:
        yield Mutant(guard, line, re.sub(r"if .* then --", "if false then --", line))
