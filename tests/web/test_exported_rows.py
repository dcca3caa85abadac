"""Exported files: whole lines, and nothing in them that a spreadsheet computes."""

import csv
import io
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.web.exported_rows import FileFormat, Row, cell, exported


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1"])
def test_what_a_spreadsheet_would_compute_is_text(text: str) -> None:
    assert cell(text) == f"'{text}"


@given(st.one_of(st.none(), st.integers(min_value=0), st.text()))
def test_no_cell_begins_like_a_formula(value: str | int | None) -> None:
    assert not cell(value).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


async def test_a_text_with_line_breaks_commas_and_quotes_stays_one_cell() -> None:
    async def rows() -> AsyncIterator[Row]:
        yield {"a": 'שלום, "דנה"\nline two', "b": None}

    body = exported(rows(), ("a", "b"), FileFormat.CSV, "messages")
    whole = "".join([str(part) async for part in body.body_iterator])
    assert list(csv.reader(io.StringIO(whole.removeprefix("\ufeff")))) == [["a", "b"], ['שלום, "דנה"\nline two', ""]]
    assert body.headers["content-disposition"] == 'attachment; filename="messages.csv"'
