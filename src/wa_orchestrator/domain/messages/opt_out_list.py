"""A list of people who want no more messages, as a file: one number per line, or CSV with a column for it."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.domain.campaigns.recipients import PHONE_COLUMNS
from wa_orchestrator.domain.campaigns.template import column
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain.phone import BadPhone

_DELIMITERS: Final = ",;\t"
#: What `exported_rows` puts in front of a cell that begins like a formula.
_APOSTROPHE: Final = "'"


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line without a phone number; `text` says what to write instead."""

    line: int
    code: str
    text: str


def read(source: str, read_phone: Callable[[str], Phone]) -> tuple[dict[Phone, int], list[RefusedLine]]:
    """Return the numbers of a file with their lines, each once, and the lines that have none."""
    rows = list(_rows(source.removeprefix("\ufeff").splitlines()))
    names = [column(name) for name in rows[0][1]] if rows else []
    place = next((names.index(name) for name in PHONE_COLUMNS if name in names), None)
    found: dict[Phone, int] = {}
    refused: list[RefusedLine] = []
    for line, cells in rows if place is None else rows[1:]:
        at = place or 0
        number = cells[at] if at < len(cells) else ""
        try:
            found.setdefault(read_phone(number.removeprefix(_APOSTROPHE)), line)
        except BadPhone as error:
            refused.append(RefusedLine(line, error.code, error.text))
    return found, refused


def _rows(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, with the numbers of their lines. No cell spans lines: it is a list."""
    delimiter = max(_DELIMITERS, key=lines[0].count) if lines else ","
    for number, line in enumerate(lines, 1):
        cells = next(csv.reader([line], delimiter=delimiter), [])
        if any(each.strip() for each in cells):
            yield number, [each.strip() for each in cells]
