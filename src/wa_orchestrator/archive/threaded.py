"""Threads of an archive: one writes, others read, so that the event loop never waits for a disk or a database.

A kind of archive adds three things: modules with the functions that read and write (`Reads`, `ConversationReads`,
`Writes`), the connections of the threads, and copies for backups.
"""

import asyncio
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

from wa_orchestrator.archive.contract import Contact
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


class Closeable(Protocol):
    """A connection."""

    def close(self) -> Any: ...


C = TypeVar("C", bound=Closeable)
C_contra = TypeVar("C_contra", contravariant=True)


class Reads(Protocol[C_contra]):
    """Functions of a connection that read for `contract.Archive`."""

    def identity(self, connection: C_contra, /) -> str: ...
    def page(
        self, connection: C_contra, filters: Filters, after: IndexEntry | None, most: int, /
    ) -> list[IndexEntry]: ...
    def messages(self, connection: C_contra, ids: Sequence[str], /) -> dict[str, MessageCopy]: ...
    def events(self, connection: C_contra, after: str, most: int, /) -> list[Entry]: ...
    def incoming(
        self, connection: C_contra, names: Sequence[tuple[str, str]], /
    ) -> dict[tuple[str, str], Mapping[str, str]]: ...
    def messages_to(self, connection: C_contra, contact: Contact, after: str, most: int, /) -> list[MessageCopy]: ...
    def incoming_of(
        self, connection: C_contra, contact: Contact, after: int, most: int, /
    ) -> list[tuple[int, IncomingCopy]]: ...
    def events_of(self, connection: C_contra, contact: Contact, after: str, most: int, /) -> list[Entry]: ...
    def last_event(self, connection: C_contra, /) -> str: ...


class ConversationReads(Protocol[C_contra]):
    """Functions of a connection that read incoming messages by conversation and by words."""

    def incoming_page(
        self, connection: C_contra, session: str, chats: Sequence[str], after: IndexEntry | None, most: int, /
    ) -> list[IncomingCopy]: ...
    def changes_of(self, connection: C_contra, session: str, targets: Sequence[str], /) -> list[IncomingCopy]: ...
    def search_incoming(
        self, connection: C_contra, text: str, among: Collection[str] | None, most: int, /
    ) -> list[IncomingCopy]: ...


class Writes(Protocol[C_contra]):
    """Functions of a connection that write for `contract.Archive`, each in one transaction."""

    def put_messages(self, connection: C_contra, copies: Sequence[MessageCopy], /) -> None: ...
    def put_events(self, connection: C_contra, entries: Sequence[Entry], /) -> None: ...
    def put_incoming(self, connection: C_contra, copies: Sequence[IncomingCopy], /) -> None: ...
    def erase_texts(self, connection: C_contra, until_ms: int, most: int, /) -> int: ...
    def erase_messages(self, connection: C_contra, until_ms: int, most: int, /) -> int: ...
    def erase_events(self, connection: C_contra, until_ms: int, most: int, /) -> int: ...
    def erase_contact(self, connection: C_contra, contact: Contact, messages: Sequence[str], most: int, /) -> int: ...
    def shrink(self, connection: C_contra, /) -> None: ...


class ThreadedArchive(ABC, Generic[C]):
    """An archive whose calls run in threads; `contract.Archive` describes each. Nothing is opened before it is used."""

    #: Translated to `Unavailable`. Copies are SQLite files whatever the archive is.
    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error, OSError)

    def __init__(self, reads: Reads[C], conversations: ConversationReads[C], writes: Writes[C]) -> None:
        self._reads = reads
        self._conversations = conversations
        self._writes = writes
        self._reading_threads = ThreadPoolExecutor(_READERS, thread_name_prefix="archive-reader")
        self._writing_thread = ThreadPoolExecutor(1, thread_name_prefix="archive-writer")
        self._of_thread = threading.local()
        self._opened: set[C] = set()

    @abstractmethod
    def _with_reader(self, empty: T, work: Callable[[C], T]) -> T:
        """Do work with this thread's connection for reading; `empty` while there is no archive."""

    @abstractmethod
    def _with_writer(self, work: Callable[[C], T]) -> T:
        """Do work with this thread's connection for writing."""

    async def identity(self) -> str:
        return await self._read("", self._reads.identity)

    async def page(self, filters: Filters, *, after: IndexEntry | None, most: int) -> list[IndexEntry]:
        return await self._read([], self._reads.page, filters, after, most)

    async def messages(self, ids: Sequence[str]) -> dict[str, MessageCopy]:
        return await self._read({}, self._reads.messages, ids) if ids else {}

    async def events(self, after: str, *, most: int) -> list[Entry]:
        return await self._read([], self._reads.events, after, most)

    async def incoming(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Mapping[str, str]]:
        return await self._read({}, self._reads.incoming, names) if names else {}

    async def messages_to(self, contact: Contact, *, after: str, most: int) -> list[MessageCopy]:
        return await self._read([], self._reads.messages_to, contact, after, most)

    async def incoming_of(self, contact: Contact, *, after: int, most: int) -> list[tuple[int, IncomingCopy]]:
        return await self._read([], self._reads.incoming_of, contact, after, most)

    async def events_of(self, contact: Contact, *, after: str, most: int) -> list[Entry]:
        return await self._read([], self._reads.events_of, contact, after, most)

    async def incoming_page(
        self, session: str, chats: Sequence[str], *, after: IndexEntry | None, most: int
    ) -> list[IncomingCopy]:
        return await self._read([], self._conversations.incoming_page, session, chats, after, most)

    async def changes_of(self, session: str, whatsapp_ids: Sequence[str]) -> list[IncomingCopy]:
        return await self._read([], self._conversations.changes_of, session, whatsapp_ids) if whatsapp_ids else []

    async def search_incoming(self, text: str, *, among: Collection[str] | None, most: int) -> list[IncomingCopy]:
        return await self._read([], self._conversations.search_incoming, text, among, most)

    async def last_event(self) -> str:
        return await self._read("0", self._reads.last_event)

    async def create(self) -> str:
        return await self._write(self._reads.identity)

    async def put_messages(self, copies: Sequence[MessageCopy]) -> None:
        await self._write(self._writes.put_messages, copies)

    async def put_events(self, entries: Sequence[Entry]) -> None:
        await self._write(self._writes.put_events, entries)

    async def put_incoming(self, copies: Sequence[IncomingCopy]) -> None:
        await self._write(self._writes.put_incoming, copies)

    async def erase_texts(self, until_ms: int, *, most: int) -> int:
        return await self._write(self._writes.erase_texts, until_ms, most)

    async def erase_messages(self, until_ms: int, *, most: int) -> int:
        return await self._write(self._writes.erase_messages, until_ms, most)

    async def erase_events(self, until_ms: int, *, most: int) -> int:
        return await self._write(self._writes.erase_events, until_ms, most)

    async def erase_contact(self, contact: Contact, messages: Sequence[str], *, most: int) -> int:
        return await self._write(self._writes.erase_contact, contact, messages, most)

    async def shrink(self) -> None:
        await self._write(self._writes.shrink)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writing_thread.shutdown(cancel_futures=True)
        self._reading_threads.shutdown(cancel_futures=True)
        while self._opened:
            self._opened.pop().close()

    async def _read(self, empty: T, function: Callable[Concatenate[C, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read in a thread; `empty` while there is no archive."""
        return await self._in_thread(
            self._reading_threads,
            lambda: self._with_reader(empty, lambda connection: function(connection, *args, **kwargs)),
        )

    async def _write(self, function: Callable[Concatenate[C, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._in_thread(
            self._writing_thread, lambda: self._with_writer(lambda connection: function(connection, *args, **kwargs))
        )

    async def _in_thread(self, executor: ThreadPoolExecutor | None, work: Callable[[], T]) -> T:
        """Do work in a thread (None: one of its own), and translate errors."""
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, work)
        except self.errors as error:
            said = str(error).strip().partition("\n")[0]
            raise Unavailable("ARCHIVE_UNAVAILABLE", f"The archive cannot be read or written: {said}.") from error
