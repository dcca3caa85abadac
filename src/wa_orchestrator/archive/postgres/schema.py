"""Tables of the PostgreSQL archive, and how it is opened.

Rows are stored by place, as in SQLite. Columns beside the JSON are for looking rows up, and have what `key` makes of a
text: PostgreSQL takes no NUL in one, and indexes none that is very long. The texts themselves are in the JSON.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from wa_orchestrator.domain.messages.search_words import words_of

Connection = psycopg.Connection[tuple[Any, ...]]

#: All tables are in a schema of this name: the database may have others.
SCHEMA: Final = "wa_archive"
#: One writer at a time, whichever process it is in: a leader that was replaced may still be in the middle of a write.
_WRITER_LOCK: Final = 0x77615F6172636869
_LONGEST_KEY: Final = 200
_CONNECT_S: Final = 5
#: Longer than any read of a page; a server that is stuck must not keep the readers for ever.
_READ_MS: Final = 30_000
_LOCK_MS: Final = 10_000
_TCP_MS: Final = 10_000

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS mark (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS message (
  place bigint PRIMARY KEY,  -- by acceptance
  id text COLLATE "C" NOT NULL, session text NOT NULL, recipient text NOT NULL, status text NOT NULL,
  reference text NOT NULL, batch text NOT NULL, ended_at bigint NOT NULL,
  record text NOT NULL,      -- the fields of its hash without the content, as JSON
  body text,                 -- its content as JSON; NULL once it was erased
  timeline text NOT NULL,    -- its lines, as JSON
  words text[] NOT NULL      -- of its content, as domain/messages/search_words.py makes them
);
CREATE UNIQUE INDEX IF NOT EXISTS message_id ON message (id);
CREATE INDEX IF NOT EXISTS message_session ON message (session, status, place);
CREATE INDEX IF NOT EXISTS message_status ON message (status, place);
CREATE INDEX IF NOT EXISTS message_recipient ON message (recipient, place);
CREATE INDEX IF NOT EXISTS message_thread ON message (recipient, session, place);
CREATE INDEX IF NOT EXISTS message_reference ON message (reference, place) WHERE reference != '';
CREATE INDEX IF NOT EXISTS message_batch ON message (batch, place) WHERE batch != '';
CREATE INDEX IF NOT EXISTS message_ended ON message (ended_at);
CREATE INDEX IF NOT EXISTS message_words ON message USING gin (words);
CREATE TABLE IF NOT EXISTS event (
  place bigint PRIMARY KEY,  -- its cursor
  message text NOT NULL, contact text NOT NULL, fields text NOT NULL
);
CREATE INDEX IF NOT EXISTS event_message ON event (message) WHERE message != '';
CREATE INDEX IF NOT EXISTS event_contact ON event (contact, place) WHERE contact != '';
CREATE TABLE IF NOT EXISTS incoming (
  place bigint PRIMARY KEY,  -- by arrival
  session text NOT NULL, whatsapp_id text NOT NULL, contact text NOT NULL,
  chat text NOT NULL,        -- the contact or group of its conversation; '' for one that changes another
  target text NOT NULL,      -- WhatsApp's id of the message that it changes; '' for one of its own
  name text NOT NULL,        -- session and WhatsApp's id, as JSON
  fields text NOT NULL, words text[] NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS incoming_name ON incoming (session, whatsapp_id);
CREATE INDEX IF NOT EXISTS incoming_contact ON incoming (contact, place) WHERE contact != '';
CREATE INDEX IF NOT EXISTS incoming_chat ON incoming (session, chat, place) WHERE chat != '';
CREATE INDEX IF NOT EXISTS incoming_target ON incoming (session, target, place) WHERE target != '';
CREATE INDEX IF NOT EXISTS incoming_words ON incoming USING gin (words);
"""


def open_reader(url: str) -> Connection:
    """Open a connection that reads. There may be no tables yet."""
    connection = _connect(url)
    # Planned for its values each time. One plan for all would walk from the newest message on, which is right for
    # common words only: for a rare one it reads every message there is.
    connection.prepare_threshold = None
    connection.execute("SET default_transaction_read_only = on")
    connection.execute(f"SET statement_timeout = {_READ_MS}")
    return connection


def open_writer(url: str) -> Connection:
    """Open a connection for the process that writes, and make the tables unless they exist."""
    connection = _connect(url)
    connection.execute(f"SET lock_timeout = {_LOCK_MS}")
    # A commit returns when it is on disk: only then may what was copied leave Redis. A stronger setting stays.
    if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
        connection.execute("SET synchronous_commit = on")
    _create(connection)
    return connection


def _connect(url: str) -> Connection:
    connection = psycopg.connect(
        url,
        autocommit=True,  # each write says itself where it begins and ends
        connect_timeout=_CONNECT_S,
        application_name="wa-orchestrator",
        tcp_user_timeout=_TCP_MS,
        client_encoding="utf-8",
    )
    connection.execute(f"SET search_path = {SCHEMA}")
    return connection


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Commit what the block writes, as the only writer; nothing of it if the block fails."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_WRITER_LOCK,))
        yield


def _create(connection: Connection) -> None:
    # One transaction: an archive has all its tables and an identity, or does not exist.
    with transaction(connection):
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(_TABLES)
        connection.execute(
            "INSERT INTO mark VALUES ('identity', %s) ON CONFLICT (name) DO NOTHING", (secrets.token_hex(8),)
        )


def mark(connection: Connection, name: str, default: str) -> str:
    found = connection.execute("SELECT value FROM mark WHERE name = %s", (name,)).fetchone()
    return str(found[0]) if found else default


def set_mark(connection: Connection, name: str, value: str) -> None:
    connection.execute(
        "INSERT INTO mark VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
    )


def key(text: str) -> str:
    """Return what stands for a text in a column: the text itself where PostgreSQL can store and index it."""
    if len(text) <= _LONGEST_KEY and "\0" not in text:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def word_keys(text: str) -> list[str]:
    """Return what stands for the words of a text."""
    return [key(word) for word in words_of(text)]


def to_json(value: Mapping[str, str] | Iterable[str]) -> str:
    """Return JSON, which has no NUL: that is escaped in it."""
    return json.dumps(value if isinstance(value, Mapping) else list(value), ensure_ascii=False, separators=(",", ":"))
