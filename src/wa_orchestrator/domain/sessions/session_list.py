"""A list of sessions to create, as a file: CSV with a heading, one session per line."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.domain.campaigns.template import column
from wa_orchestrator.errors import Refused

MOST_LINES: Final = 1_000
_DELIMITERS: Final = ",;\t"
_TAGS: Final = "tags"
_SEPARATOR: Final = re.compile(r"[|,]")
#: What `exported_rows` puts in front of a cell that begins like a formula.
_APOSTROPHE: Final = "'"
#: Headings, and the fields of a request that they name. Others, as an export has them, are left out.
COLUMNS: Final[Mapping[str, str]] = {
    "session": "sessionId", "session_id": "sessionId", "sessionid": "sessionId", "id": "sessionId",
    "phone": "phone", "label": "label", "name": "label", "tags": _TAGS, "proxy": "proxy", "pairing": "pairing",
    "timezone": "timezone", "presence": "presence", "profile": "profile",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListedSession:
    """One line: the fields of a request, as they are written there."""

    line: int
    fields: Mapping[str, str | list[str]]


def read(source: str) -> list[ListedSession]:
    """Return the lines of a file that are not empty. Raises `Refused` for a file without a heading that is known."""
    lines = source.removeprefix("\ufeff").splitlines()
    delimiter = max(_DELIMITERS, key=lines[0].count) if lines else ","
    rows = [(number, next(csv.reader([line], delimiter=delimiter), [])) for number, line in enumerate(lines, 1)]
    filled = [(number, [each.strip() for each in cells]) for number, cells in rows if any(map(str.strip, cells))]
    names = [COLUMNS.get(column(name), "") for name in filled[0][1]] if filled else []
    if not any(names):
        text = f"The first line must name the columns, such as id,phone,label,tags,proxy. Known: {', '.join(COLUMNS)}."
        raise Refused("NO_HEADING", text, 422)
    if len(filled) - 1 > MOST_LINES:
        raise Refused("TOO_MANY_LINES", f"At most {MOST_LINES} sessions at once. Import the list in parts.", 422)
    return [ListedSession(number, _fields(names, cells)) for number, cells in filled[1:]]


def _fields(names: list[str], cells: list[str]) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {}
    for name, cell in zip(names, cells, strict=False):
        value = cell.removeprefix(_APOSTROPHE)
        if name and value:
            found[name] = [each.strip() for each in _SEPARATOR.split(value)] if name == _TAGS else value
    return found
