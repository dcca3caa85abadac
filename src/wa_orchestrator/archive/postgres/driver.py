"""The archive in PostgreSQL: one connection writes, others read, each in a thread: the event loop never waits."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import psycopg

from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.archive.postgres import copies, reads, schema, writes
from wa_orchestrator.archive.postgres.schema import Connection
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.store.records import Entry

_READERS: Final = 4

P = ParamSpec("P")
T = TypeVar("T")


class PostgresArchive:
    """An archive in a database. Nothing is opened before it is used, and only `create` makes tables."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="archive-reader")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="archive-writer")
        self._of_thread = threading.local()
        self._opened: set[Connection] = set()

    async def identity(self) -> str:
        return await self._read("", reads.identity)

    async def page(self, filters: Filters, *, after: IndexEntry | None, most: int) -> list[IndexEntry]:
        return await self._read([], reads.page, filters, after, most)

    async def messages(self, ids: Sequence[str]) -> dict[str, MessageCopy]:
        return await self._read({}, reads.messages, ids) if ids else {}

    async def events(self, after: str, *, most: int) -> list[Entry]:
        return await self._read([], reads.events, after, most)

    async def incoming(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Mapping[str, str]]:
        return await self._read({}, reads.incoming, names) if names else {}

    async def messages_to(self, contact: Contact, *, after: str, most: int) -> list[MessageCopy]:
        return await self._read([], reads.messages_to, contact, after, most)

    async def incoming_of(self, contact: Contact, *, after: int, most: int) -> list[tuple[int, IncomingCopy]]:
        return await self._read([], reads.incoming_of, contact, after, most)

    async def events_of(self, contact: Contact, *, after: str, most: int) -> list[Entry]:
        return await self._read([], reads.events_of, contact, after, most)

    async def incoming_page(
        self, session: str, chats: Sequence[str], *, after: IndexEntry | None, most: int
    ) -> list[IncomingCopy]:
        return await self._read([], reads.incoming_page, session, chats, after, most)

    async def changes_of(self, session: str, whatsapp_ids: Sequence[str]) -> list[IncomingCopy]:
        return await self._read([], reads.changes_of, session, whatsapp_ids) if whatsapp_ids else []

    async def search_incoming(self, text: str, *, among: Collection[str] | None, most: int) -> list[IncomingCopy]:
        return await self._read([], reads.search_incoming, text, among, most)

    async def create(self) -> str:
        return await self._write(reads.identity)

    async def put_messages(self, copies: Sequence[MessageCopy]) -> None:
        await self._write(writes.put_messages, copies)

    async def put_events(self, entries: Sequence[Entry]) -> None:
        await self._write(writes.put_events, entries)

    async def put_incoming(self, copies: Sequence[IncomingCopy]) -> None:
        await self._write(writes.put_incoming, copies)

    async def last_event(self) -> str:
        return await self._read("0", reads.last_event)

    async def erase_texts(self, until_ms: int, *, most: int) -> int:
        return await self._write(writes.erase_texts, until_ms, most)

    async def erase_messages(self, until_ms: int, *, most: int) -> int:
        return await self._write(writes.erase_messages, until_ms, most)

    async def erase_events(self, until_ms: int, *, most: int) -> int:
        return await self._write(writes.erase_events, until_ms, most)

    async def erase_contact(self, contact: Contact, messages: Sequence[str], *, most: int) -> int:
        return await self._write(writes.erase_contact, contact, messages, most)

    async def shrink(self) -> None:
        await self._write(writes.shrink)

    async def copy_to(self, target: Path) -> bool:
        # In a thread and a connection of its own: it may take minutes, and neither readers nor the writer wait for it.
        return await _translated(None, lambda: copies.copy_to(self._url, target))

    async def take_from(self, source: Path) -> None:
        for take in copies.TAKES:
            after: int | None = -1
            while after is not None:
                after = await self._write(copies.take_rows, source, take, after)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.shutdown(cancel_futures=True)
        self._readers.shutdown(cancel_futures=True)
        while self._opened:
            self._opened.pop().close()

    # -- threads --

    async def _read(
        self, empty: T, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read in a thread; `empty` while there is no archive."""

        def work() -> T:
            try:
                return self._run(schema.open_reader, lambda connection: function(connection, *args, **kwargs))
            except psycopg.errors.UndefinedTable:
                return empty

        return await _translated(self._readers, work)

    async def _write(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        def do(connection: Connection) -> T:
            return function(connection, *args, **kwargs)

        return await _translated(self._writer, partial(self._run, schema.open_writer, do))

    def _run(self, open_it: Callable[[str], Connection], function: Callable[[Connection], T]) -> T:
        """Call a function with the connection of this thread; once more, with a new one, if that has broken.

        A server that was restarted, or whose standby took over, breaks all of them. Repeating is harmless.
        """
        known: Connection | None = getattr(self._of_thread, "connection", None)
        if known is not None and not known.closed:
            try:
                return function(known)
            except psycopg.Error:
                if not known.closed:
                    raise
        self._forget(known)
        connection = self._of_thread.connection = open_it(self._url)
        self._opened.add(connection)
        return function(connection)

    def _forget(self, connection: Connection | None) -> None:
        if connection is not None:
            self._opened.discard(connection)
            connection.close()


async def _translated(executor: ThreadPoolExecutor | None, work: Callable[[], T]) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    except (psycopg.Error, sqlite3.Error, OSError) as error:
        said = str(error).strip().partition("\n")[0]
        raise Unavailable("ARCHIVE_UNAVAILABLE", f"The archive cannot be read or written: {said}.") from error
