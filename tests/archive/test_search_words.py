"""Queries of words: one that few messages have is asked for alone, because the others cost a read of all messages."""

from pathlib import Path

import pytest

from wa_orchestrator.archive import sqlite_schema
from wa_orchestrator.archive.sqlite_words import query_of


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (("your", "order", "77"), '"77"'),
        (("77", "78"), '"77"'),
        (("your", "order"), '"your" AND "order"'),
        (("77",), '"77"'),
        (("and", "nowhere"), '"nowhere"'),
    ],
)
def test_a_rare_word_is_asked_for_alone(tmp_path: Path, words: tuple[str, ...], query: str) -> None:
    connection = sqlite_schema.open_writer(tmp_path / "archive.sqlite")
    rows = ((place, f"your order {place} and") for place in range(1, 1_500))
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO message_text (rowid, words) VALUES (?, ?)", rows)
    connection.execute("COMMIT")
    assert query_of(connection, "message_text", words) == query
    connection.close()
