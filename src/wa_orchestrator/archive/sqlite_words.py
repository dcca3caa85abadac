"""Queries of the SQLite archive's indexes of words."""

import sqlite3
from collections.abc import Sequence
from typing import Final

#: A word in at most so many messages is rare: reading all of them takes a millisecond.
_RARE: Final = 1_000


def query_of(connection: sqlite3.Connection, table: str, words: Sequence[str]) -> str:
    """Return a query whose hits contain all messages with these words, and few others.

    An AND reads the messages of every word, also of one that millions have; where a word is rare, it stands alone, and
    the caller looks for the others in the few messages that have it.
    """
    rare = next((word for word in words if len(words) > 1 and _is_rare(connection, table, word)), None)
    # As strings: a word such as AND is an operator otherwise.
    return " AND ".join(f'"{word}"' for word in ([rare] if rare is not None else words))


def _is_rare(connection: sqlite3.Connection, table: str, word: str) -> bool:
    query = f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT 1 OFFSET ?"
    return connection.execute(query, (f'"{word}"', _RARE)).fetchone() is None
