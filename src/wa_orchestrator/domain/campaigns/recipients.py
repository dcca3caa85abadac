"""The recipients of a campaign, from a CSV file: who can be written to, and every line with a problem."""

import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wa_orchestrator.domain.campaigns.template import column, fields_of, fill
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain.messages.content import LONGEST_TEXT
from wa_orchestrator.domain.phone import BadPhone

#: Names of the column with the number, in the order in which they are looked for.
PHONE_COLUMNS: Final = ("phone", "to", "number", "mobile", "טלפון", "נייד")
LONGEST_VALUE: Final = 1_000
_DELIMITERS: Final = ",;\t|"
_SPREADSHEET_NUMBER: Final = re.compile(r"\d+(\.\d+)?[eE]\+?\d+")

ReadPhone = Callable[[str], Phone]


class LineProblem(StrEnum):
    """What is wrong with a line of the file."""

    NO_NUMBER = "NO_NUMBER"
    """The column with the number is empty."""
    BAD_NUMBER = "BAD_NUMBER"
    """It is not a phone number."""
    SPREADSHEET_NUMBER = "SPREADSHEET_NUMBER"
    """A spreadsheet has rounded the number, as in 9.7250E+11. Format the column as text and export again."""
    RECIPIENT_IS_LID = "RECIPIENT_IS_LID"
    """The digits are WhatsApp's LID of somebody who wrote to us, not a phone."""
    FIELD_EMPTY = "FIELD_EMPTY"
    """A field of the text has no value here."""
    TOO_LONG = "TOO_LONG"
    """A value, or the text with its fields filled in, is too long."""


class FileProblem(StrEnum):
    """What is wrong with the file as a whole."""

    EMPTY = "EMPTY"
    NO_PHONE_COLUMN = "NO_PHONE_COLUMN"
    COLUMN_TWICE = "COLUMN_TWICE"
    COLUMN_MISSING = "COLUMN_MISSING"
    """The text has a field for which there is no column."""
    NOT_CSV = "NOT_CSV"
    TOO_MANY = "TOO_MANY"


@dataclass(frozen=True, slots=True)
class BadFile:
    """The file cannot be used; `names` are the columns it is about."""

    problem: FileProblem
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of the file that nobody can be written to by; `value` is what it says there."""

    line: int
    problem: LineProblem
    value: str = ""


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody to write to, with the values of the text's fields."""

    line: int
    to: Phone
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recipients:
    """What a file says: whom to write to, how many lines repeat a number, and the lines with a problem."""

    found: Sequence[Recipient]
    doubles: int
    problems: Sequence[BadLine]


def read(source: str, text: str, read_phone: ReadPhone, *, most: int) -> Recipients | BadFile:
    """Read the recipients of a text from a CSV file. Its first line names the columns."""
    lines = source.removeprefix("\ufeff").splitlines(keepends=True)
    head = next((line for line in lines if line.strip()), "")
    try:
        rows = list(_rows(lines, max(_DELIMITERS, key=head.count)))
    except csv.Error:
        return BadFile(FileProblem.NOT_CSV)
    if not rows:
        return BadFile(FileProblem.EMPTY)
    columns = [column(name) for name in rows[0][1]]
    if problem := _columns_problem(columns, text):
        return problem
    if len(rows) - 1 > most:
        return BadFile(FileProblem.TOO_MANY)
    phone_column = next(name for name in PHONE_COLUMNS if name in columns)
    return _read_lines([(line, dict(zip(columns, values, strict=False))) for line, values in rows[1:]],
                       phone_column, text, read_phone)  # fmt: skip


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of its last line."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    for values in reader:
        if any(value.strip() for value in values):
            yield reader.line_num, [value.strip() for value in values]


def _columns_problem(columns: Sequence[str], text: str) -> BadFile | None:
    if not set(columns) & set(PHONE_COLUMNS):
        return BadFile(FileProblem.NO_PHONE_COLUMN, tuple(columns))
    twice = tuple(name for name in dict.fromkeys(columns) if name and columns.count(name) > 1)
    if twice:
        return BadFile(FileProblem.COLUMN_TWICE, twice)
    missing = tuple(name for name in fields_of(text) if name not in columns)
    return BadFile(FileProblem.COLUMN_MISSING, missing) if missing else None


def _read_lines(
    rows: Sequence[tuple[int, Mapping[str, str]]], phone_column: str, text: str, read_phone: ReadPhone
) -> Recipients:
    fields = fields_of(text)
    found: dict[str, Recipient] = {}
    problems: list[BadLine] = []
    doubles = 0
    for line, values in rows:
        read = _read_line(line, values, phone_column, fields, read_phone)
        if isinstance(read, Recipient) and len(fill(text, read.values)) > LONGEST_TEXT:
            read = BadLine(line, LineProblem.TOO_LONG)
        if isinstance(read, BadLine):
            problems.append(read)
        elif read.to in found:
            doubles += 1
        else:
            found[read.to] = read
    return Recipients(list(found.values()), doubles, problems)


def _read_line(
    line: int, values: Mapping[str, str], phone_column: str, fields: Collection[str], read_phone: ReadPhone
) -> Recipient | BadLine:
    number = values.get(phone_column, "")
    if not number:
        return BadLine(line, LineProblem.NO_NUMBER)
    if _SPREADSHEET_NUMBER.fullmatch(number):
        return BadLine(line, LineProblem.SPREADSHEET_NUMBER, number)
    try:
        to = read_phone(number)
    except BadPhone:
        return BadLine(line, LineProblem.BAD_NUMBER, number[:40])
    used = {name: values.get(name, "") for name in fields}
    empty = next((name for name, value in used.items() if not value), None)
    if empty is not None:
        return BadLine(line, LineProblem.FIELD_EMPTY, empty)
    if any(len(value) > LONGEST_VALUE for value in used.values()):
        return BadLine(line, LineProblem.TOO_LONG)
    return Recipient(line, to, used)
