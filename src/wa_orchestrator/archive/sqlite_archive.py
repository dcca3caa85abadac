"""The archive in one SQLite file: one thread writes, others read, so that the event loop never waits for the disk."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from wa_orchestrator.archive import sqlite_copies as copies
from wa_orchestrator.archive import sqlite_reads as reads
from wa_orchestrator.archive import sqlite_threads as threads
from wa_orchestrator.archive import sqlite_writes as writes
from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.archive.sqlite_schema import mark, open_reader, open_writer
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.store.records import Entry

#: Threads that read. A read takes less than a millisecond mostly; one that waits for the disk must not stop the others.
_READERS: Final = 4

P = ParamSpec("P")
T = TypeVar("T")


class SqliteArchive:
    """An archive in a file. Nothing is opened before it is used, and only `create` makes the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="archive-reader")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="archive-writer")
        self._of_thread = threading.local()
        self._opened: list[sqlite3.Connection] = []

    async def identity(self) -> str:
        return await self._read("", _identity)

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
        return await self._read([], threads.page, session, chats, after, most)

    async def changes_of(self, session: str, whatsapp_ids: Sequence[str]) -> list[IncomingCopy]:
        return await self._read([], threads.changes_of, session, whatsapp_ids) if whatsapp_ids else []

    async def search_incoming(self, text: str, *, among: Collection[str] | None, most: int) -> list[IncomingCopy]:
        return await self._read([], threads.search, text, among, most)

    async def create(self) -> str:
        await self._write(writes.prepare)
        return await self._write(_identity)

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
        # In a thread of its own: it may take a minute, and neither readers nor the writer wait for it.
        return await _translated(None, lambda: copies.copy_to(self.path, target))

    async def take_from(self, source: Path) -> None:
        await self._write(_with_copy(source, copies.take_marks))
        for take in copies.TAKES:
            after: int | None = -1
            while after is not None:
                after = await self._write(_with_copy(source, partial(_taken, take, after)))

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.shutdown(cancel_futures=True)
        self._readers.shutdown(cancel_futures=True)
        while self._opened:
            self._opened.pop().close()

    # -- threads --

    async def _read(
        self,
        empty: T,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Read in a thread; `empty` while there is no archive."""

        def work() -> T:
            connection = self._connection(open_reader)
            return empty if connection is None else function(connection, *args, **kwargs)

        return await _translated(self._readers, work)

    async def _write(
        self, function: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def work() -> T:
            connection = self._connection(open_writer)
            return function(connection, *args, **kwargs)

        return await _translated(self._writer, work)

    def _connection(self, open_it: Callable[[Path], "Opened"]) -> "Opened":
        """Return the connection of this thread."""
        connection: Opened | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = open_it(self.path)
            if connection is not None:
                self._of_thread.connection = connection
                self._opened.append(connection)
        return connection


Opened = TypeVar("Opened", sqlite3.Connection, sqlite3.Connection | None)


def _identity(connection: sqlite3.Connection) -> str:
    return mark(connection, "identity", "")


def _taken(take: copies.Take, after: int, connection: sqlite3.Connection, copy: sqlite3.Connection) -> int | None:
    return take(connection, copy, after)


def _with_copy(
    source: Path, function: Callable[[sqlite3.Connection, sqlite3.Connection], T]
) -> Callable[[sqlite3.Connection], T]:
    """Return a function of the archive's connection that has a copy open too."""

    def work(connection: sqlite3.Connection) -> T:
        with copies.opened(source) as copy:
            return function(connection, copy)

    return work


async def _translated(executor: ThreadPoolExecutor | None, work: Callable[[], T]) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    except (sqlite3.Error, OSError) as error:
        raise Unavailable("ARCHIVE_UNAVAILABLE", f"The archive cannot be read or written: {error}.") from error
