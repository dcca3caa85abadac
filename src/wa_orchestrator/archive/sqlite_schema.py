"""Tables of the SQLite archive, and how it is opened.

A row's key is its place: an instant in milliseconds and a number that tells rows of one millisecond apart. So each
table is stored in the order of time, every index is in that order too, and a page of any search is one short read
however many rows there are.
"""

import os
import secrets
import sqlite3
from pathlib import Path
from typing import Final

#: Tables with the words of messages, by place.
WORD_TABLES: Final = ("message_text", "incoming_text")
#: An earlier SQLite keeps pieces of erased words in its index until that is merged.
ERASES_WORDS: Final = sqlite3.sqlite_version_info >= (3, 42)
_BUSY_S: Final = 10.0

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS message (
  place INTEGER PRIMARY KEY,  -- by acceptance
  id TEXT NOT NULL, session TEXT NOT NULL, recipient TEXT NOT NULL, status TEXT NOT NULL,
  reference TEXT NOT NULL, batch TEXT NOT NULL, ended_at INTEGER NOT NULL,
  record TEXT NOT NULL,       -- all other fields of its hash, as JSON
  body TEXT,                  -- its content as JSON; NULL once it was erased
  timeline TEXT NOT NULL      -- its lines
);
CREATE UNIQUE INDEX IF NOT EXISTS message_id ON message (id);
CREATE INDEX IF NOT EXISTS message_session ON message (session, status);
CREATE INDEX IF NOT EXISTS message_status ON message (status);
CREATE INDEX IF NOT EXISTS message_recipient ON message (recipient);
CREATE INDEX IF NOT EXISTS message_thread ON message (recipient, session);
CREATE INDEX IF NOT EXISTS message_reference ON message (reference) WHERE reference != '';
CREATE INDEX IF NOT EXISTS message_batch ON message (batch) WHERE batch != '';
CREATE INDEX IF NOT EXISTS message_ended ON message (ended_at);
-- The words of a body, as domain/messages/search_words.py makes them: this tokenizer only has to split at the spaces.
CREATE VIRTUAL TABLE IF NOT EXISTS message_text USING fts5(words, tokenize = 'ascii', detail = none, columnsize = 0);
CREATE TABLE IF NOT EXISTS event (
  place INTEGER PRIMARY KEY,  -- its cursor
  message TEXT NOT NULL, contact TEXT NOT NULL, fields TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS event_message ON event (message) WHERE message != '';
CREATE INDEX IF NOT EXISTS event_contact ON event (contact) WHERE contact != '';
CREATE TABLE IF NOT EXISTS incoming (
  place INTEGER PRIMARY KEY,  -- by arrival
  session TEXT NOT NULL, whatsapp_id TEXT NOT NULL, contact TEXT NOT NULL, fields TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS incoming_name ON incoming (session, whatsapp_id);
CREATE INDEX IF NOT EXISTS incoming_contact ON incoming (contact) WHERE contact != '';
-- Where an incoming message belongs. Not indexes over `fields`: functions in the schema of a copy are not trusted.
CREATE TABLE IF NOT EXISTS incoming_thread (
  place INTEGER PRIMARY KEY, session TEXT NOT NULL,
  chat TEXT NOT NULL,         -- the contact or group of its conversation; '' for one that changes another
  target TEXT NOT NULL        -- WhatsApp's id of the message that it changes; '' for one of its own
);
CREATE INDEX IF NOT EXISTS incoming_thread_chat ON incoming_thread (session, chat) WHERE chat != '';
CREATE INDEX IF NOT EXISTS incoming_thread_target ON incoming_thread (session, target) WHERE target != '';
CREATE VIRTUAL TABLE IF NOT EXISTS incoming_text USING fts5(words, tokenize = 'ascii', detail = none, columnsize = 0);
"""


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the archive for the one process that writes it, and make it if there is none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = _connect(path)
    # FULL: a commit returns when it is on disk. Only then may what was copied leave Redis.
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;")
    # One transaction: an archive has all its tables and an identity, or does not exist.
    identity = f"INSERT OR IGNORE INTO mark VALUES ('identity', '{secrets.token_hex(8)}');"
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {identity} COMMIT;")
    for table in WORD_TABLES if ERASES_WORDS else ():
        connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 1)")
    return connection


def open_reader(path: Path) -> sqlite3.Connection | None:
    """Open the archive to read it; None while there is none.

    Not `mode=ro`: such a connection cannot make the shared memory that a log needs when no writer has it open.
    """
    if not path.exists():
        return None
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'mark'").fetchone():
        connection.close()  # it is being made at this moment
        return None
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    # Without Python's own transactions: each write says itself where it begins and ends.
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def mark(connection: sqlite3.Connection, name: str, default: str) -> str:
    found = connection.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
    return str(found[0]) if found else default


def set_mark(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute(
        "INSERT INTO mark VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
    )
