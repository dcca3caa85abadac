"""Live updates: one reader of the event stream per process, one stream of changed parts per open page.

Events within a quarter of a second become one batch, for all open pages at once: pages that show the same share one
rendering, so it costs the same for one viewer and for ten. Of each part only the last version is sent. A browser that
reconnects sends the id of the last event it saw and gets what changed since, or the whole page if too much did.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from typing import Final

import structlog
from markupsafe import Markup

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer, View
from wa_orchestrator.dashboard.pages import live_log as log_page
from wa_orchestrator.dashboard.renderings import Rendering, Renderings
from wa_orchestrator.loop import Loop
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.events.event_stream import cursor_order
from wa_orchestrator.store.records import Entry

COALESCE_S: Final = 0.25
#: Without events a page is rendered again after this time: pings and codes make no events.
IDLE_S: Final = {"scan": 0.5, "session": 5.0, "fleet": 5.0, "first": 5.0}
_DEFAULT_IDLE_S: Final = 10.0
BEAT_S: Final = 10.0
_READ_BLOCK_MS: Final = 2000
#: Without an open page the stream is read this often: being woken by every event took a tenth of a message's time.
_UNWATCHED_S: Final = 2.0
_MAX_EVENTS: Final = 500
_MAX_LINES: Final = 40
#: A page that reconnects gets more lines at once.
_MAX_LINES_AFTER_GAP: Final = 400
#: After more missed events than this a page is rendered whole.
_MAX_MISSED: Final = 2000

Parts = Callable[[Renderer, View, Mapping[str, str]], Awaitable[dict[str, Markup]]]
log = structlog.get_logger(__name__)


class Hub:
    """Reads the event stream and wakes the open pages."""

    def __init__(self, context: Context, reader: SnapshotReader) -> None:
        self._context = context
        self._reader = reader
        self.pages: set[PageStream] = set()
        self.renderings = Renderings()
        self.cursor = "0-0"
        self.last_event_ms = 0
        self.open = True
        self._batch_end: asyncio.TimerHandle | None = None
        self._watched = asyncio.Event()

    @contextlib.contextmanager
    def watching(self, page: "PageStream") -> Iterator[None]:
        """Pass events on to a page while the block runs."""
        self.pages.add(page)
        self._watched.set()
        try:
            yield
        finally:
            self.pages.discard(page)

    async def run(self) -> None:
        """Read until cancelled; outages of Redis are retried."""
        self.open = True
        try:
            with contextlib.suppress(RedisError, OSError):
                for newest in await event_stream.latest(self._context.scripts, most=1):
                    self._note(newest)
            await Loop("dashboard_events", self.step, wake=self._watched).run()
        finally:  # the server stops: close the streams, browsers reconnect by themselves
            self.open = False
            self._wake_pages()

    async def step(self) -> float:
        """Pass new events to the open pages, if there are any. Returns the seconds until the next look."""
        scripts = self._context.scripts
        if not self.pages:
            entries = await event_stream.read(scripts, after=self.cursor, most=_MAX_EVENTS)
            self._pass_on(entries)
            return 0 if len(entries) == _MAX_EVENTS else _UNWATCHED_S
        self._pass_on(await event_stream.wait(scripts, after=self.cursor, most=_MAX_EVENTS, block_ms=_READ_BLOCK_MS))
        return 0

    def _pass_on(self, entries: list[Entry]) -> None:
        if entries:
            self._touch(entries)
            self._note(entries[-1])
            for open_page in self.pages:
                open_page.add_events(entries)
            self._end_batch_soon()

    async def catch_up(self) -> None:
        """Mark what changed until now, also what `run` has not read yet, so that the next snapshot has it."""
        ahead = await self.since(self.cursor)
        if ahead is None:
            self._reader.mark_all_changed()
        else:
            self._touch(ahead)

    def _touch(self, entries: list[Entry]) -> None:
        self._reader.mark_changed(entry.fields.get("session", "") for entry in entries)
        if any(entry.fields.get("type", "").startswith("hold.") for entry in entries):
            self._reader.mark_all_changed()  # a group, a phone or all: more than one session

    def wake(self) -> None:
        """Render all open pages again: an action may make no event."""
        self._reader.mark_all_changed()
        self._end_batch_soon()

    def _end_batch_soon(self) -> None:
        if self._batch_end is None:
            self._batch_end = asyncio.get_running_loop().call_later(COALESCE_S, self._wake_pages)

    def _wake_pages(self) -> None:
        """Have every page rendered again. All at once, so that they can share a rendering."""
        self._batch_end = None
        self.renderings.generation += 1
        for open_page in self.pages:
            open_page.wakeup.set()

    def _note(self, entry: Entry) -> None:
        self.cursor = entry.cursor
        self.last_event_ms = int(float(entry.fields.get("at") or entry.cursor.partition("-")[0]))

    async def since(self, after: str) -> list[Entry] | None:
        """Return the events after a cursor; None if there are too many, or if the stream no longer goes back so far."""
        found = await event_stream.read(self._context.scripts, after=after, most=_MAX_MISSED + 1)
        return None if len(found) > _MAX_MISSED else found


class PageStream:
    """Server-sent events of one open page: what it shows, and what was sent to it last.

    Streams with the same `sight` (what their viewers may see, and in which language) and the same query share their
    renderings; without one a stream has its own.
    """

    def __init__(
        self,
        hub: Hub,
        renderer: Renderer,
        query: Mapping[str, str],
        view: Callable[[], Awaitable[View]],
        parts: Parts,
        *,
        sight: Hashable = None,
        check_login: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._hub, self._renderer, self._query, self._view, self._parts = hub, renderer, query, view, parts
        self._check_login = check_login
        self._page = query["page"]
        shown = frozenset((name, value) for name, value in query.items() if name != "at")
        self._key = (sight or id(self), shown)
        self._idle_s = IDLE_S.get(self._page, _DEFAULT_IDLE_S)
        self.wakeup = asyncio.Event()
        self._lines: list[Entry] = []
        self._skipped = 0
        self._lost = False
        """Events were missed and their number is unknown; the log shows a gap."""
        self._room = _MAX_LINES_AFTER_GAP
        self._sent: dict[str, bytes] = {}
        self._sent_cursor = ""
        """The cursor up to which the browser has everything; it is sent as the id of events."""

    def add_events(self, entries: list[Entry]) -> None:
        if self._page == "live-log":
            self._lines += entries
            over = max(0, len(self._lines) - _MAX_LINES_AFTER_GAP)
            self._skipped += over
            del self._lines[:over]

    async def run(self, after: str) -> AsyncIterator[str]:
        """Yield server-sent events until the browser disconnects."""
        with self._hub.watching(self):
            # With the cursor that the browser sent: if the stream ends here, nothing is skipped.
            yield _event("hello", {"at": self._hub.last_event_ms}, after)
            await self._resume(after)
            loop = asyncio.get_running_loop()
            beat_at = loop.time() + BEAT_S
            while self._hub.open:
                await self._wait()
                for text in await self._batch():
                    beat_at = loop.time() + BEAT_S
                    yield text
                if loop.time() >= beat_at:
                    beat_at = loop.time() + BEAT_S
                    yield _event("beat", {"at": self._hub.last_event_ms}, self._sent_cursor)

    async def _resume(self, after: str) -> None:
        """Queue what a browser has missed since this cursor; a whole page if it is new, or if it missed too much."""
        self._sent_cursor = after
        shown = await self._rendering()
        resumes = after not in ("", "0-0")
        # Read last: an event during the rendering counts as missed.
        missed = await self._hub.since(after) if resumes else None
        if missed:
            self.add_events(missed)
            self._hub.renderings.generation += 1  # the one that was just made may be without them
            self.wakeup.set()
        elif missed is None:
            self._lost = resumes
            self.wakeup.set()
        else:
            self._sent_cursor = max(after, shown.cursor, key=cursor_order)
            self._sent |= shown.marks

    async def _rendering(self) -> Rendering:
        if self._check_login is not None:
            await self._check_login()
        return await self._hub.renderings.get(self._key, self._render, fresh_s=self._idle_s / 2)

    async def _render(self) -> Rendering:
        cursor = self._hub.cursor  # before the read: what comes during it is for the next one
        view = await self._view()
        parts = self._renderer.frame_parts(view) | await self._parts(self._renderer, view, self._query)
        return Rendering(view, parts, cursor)

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._idle_s):
                await self.wakeup.wait()
        self.wakeup.clear()

    async def _batch(self) -> list[str]:
        try:
            shown = await self._rendering()
        except (RedisError, OSError) as error:
            log.warning("dashboard.redis_unavailable", error=str(error))
            return []
        fresh, cursor = shown.changed_since(self._sent), max(shown.cursor, self._sent_cursor, key=cursor_order)
        self._sent |= shown.marks
        lines = self._log_lines(shown.view, cursor)
        before = self._sent_cursor if lines else cursor
        at_ms = self._hub.last_event_ms
        texts = [_event_of(f'{{"at": {at_ms}, "parts": {shown.text_of(fresh)}}}', "parts", before)] if fresh else []
        self._sent_cursor = cursor
        return texts + lines

    def _log_lines(self, view: View, cursor: str) -> list[str]:
        """Return the lines of events up to a cursor. Later ones are for the next batch, whose parts have them too."""
        if self._page != "live-log" or not (self._lines or self._lost):
            return []
        last = cursor_order(cursor)
        ready = [entry for entry in self._lines if cursor_order(entry.cursor) <= last]
        later = [entry for entry in self._lines if cursor_order(entry.cursor) > last]
        if not (ready or self._lost):
            return []
        # Missed events and those that arrived meanwhile overlap.
        entries = {entry.cursor: entry for entry in sorted(ready, key=lambda each: cursor_order(each.cursor))}.values()
        lines = [log_page.line_of(view, entry) for entry in entries if view.sees(entry.fields.get("session", ""))]
        wanted = [line for line in lines if log_page.passes(line, self._query)]
        skipped = max(0, len(wanted) - self._room) + (
            0 if view.is_limited else self._skipped
        )  # they are of all sessions
        html = [str(self._renderer.macros.log_line(view, line)) for line in wanted[-self._room :]]
        if skipped or self._lost:
            unknown = 0 if self._lost else skipped
            html.insert(0, str(self._renderer.macros.log_gap(view, unknown, _MAX_MISSED, cursor)))
        self._lines, self._skipped, self._lost, self._room = later, 0, False, _MAX_LINES
        return [_event("lines", {"at": self._hub.last_event_ms, "lines": html, "skipped": skipped}, cursor)]


def _event(kind: str, content: object, cursor: str) -> str:
    return _event_of(json.dumps(content, ensure_ascii=False), kind, cursor)


def _event_of(text: str, kind: str, cursor: str) -> str:
    named = f"id: {cursor}\n" if cursor else ""
    return f"{named}event: {kind}\ndata: {text}\n\n"
