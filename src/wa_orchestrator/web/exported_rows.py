"""Rows as a file, streamed: CSV for spreadsheets, or JSON lines for programs."""

import csv
import io
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from starlette.responses import StreamingResponse

#: What a spreadsheet takes for the beginning of a formula; some take the wide signs of East Asian keyboards, too.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Excel reads UTF-8 only with this in front.
_MARK: Final = "\ufeff"

Row = Mapping[str, str | int | None]


class FileFormat(StrEnum):
    """The form of an exported file."""

    CSV = "csv"
    JSONL = "jsonl"


class ExportedFile(StreamingResponse):
    """A file that is made while it is sent."""

    #: Of both forms: generated clients refuse to read others.
    media_type = "text/plain"


def exported(rows: AsyncIterator[Row], columns: Sequence[str], form: FileFormat, name: str) -> ExportedFile:
    """Return rows as a file for people to save."""
    lines = _csv(rows, columns) if form is FileFormat.CSV else _json(rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"', "Cache-Control": "no-store"}
    return ExportedFile(lines, headers=headers)


async def _csv(rows: AsyncIterator[Row], columns: Sequence[str]) -> AsyncIterator[str]:
    yield _MARK + _line(columns)
    async for row in rows:
        yield _line([cell(row.get(name)) for name in columns])


async def _json(rows: AsyncIterator[Row]) -> AsyncIterator[str]:
    async for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def cell(value: str | int | None) -> str:
    """Return a value as a cell. What a spreadsheet would compute is text with an apostrophe in front: anybody can send
    us a message that begins with `=`.
    """
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(cells: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()
