"""Keeps pages up to date: one reader of the event stream per process, one stream of changed parts per open page.

Whatever happens within a quarter of a second becomes one batch, and of a part only its last form is sent. A browser
that was away says which event it saw last; it gets what changed since, or everything when too much did.
"""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from markupsafe import Markup
from redis.exceptions import RedisError

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet.snapshot_reader import Fleet
from wa_orchestrator.dashboard.html.renderer import Desk, View
from wa_orchestrator.dashboard.pages import live_log as log_page
from wa_orchestrator.loop import Loop
from wa_orchestrator.store import keys
from wa_orchestrator.store.records import Entry

COALESCE_S: Final = 0.25
#: Without events a page is looked at again after this time: pings and codes make no events.
IDLE_S: Final = {"scan": 0.5, "session": 5.0}
_OTHERWISE_S: Final = 10.0
BEAT_S: Final = 10.0
_READ_BLOCK_MS: Final = 2000
_MOST_LINES: Final = 40
#: A page that was away gets more at once.
_MOST_CAUGHT_UP: Final = 400
#: More missed events than this, and a page is rendered whole.
_MOST_MISSED: Final = 2000
_RETRY_S: Final = 0.5

Parts = Callable[[Desk, View, Mapping[str, str]], Awaitable[dict[str, Markup]]]
log = structlog.get_logger(__name__)


class Hub:
    """Reads the stream of events and wakes the pages that are open."""

    def __init__(self, context: Context, fleet: Fleet) -> None:
        self._context = context
        self._fleet = fleet
        self._viewers: set[Viewer] = set()
        self.cursor = "0-0"
        self.last_event_ms = 0
        self.open = True

    async def run(self) -> None:
        """Read until cancelled, over every outage of Redis."""
        self.open = True
        try:
            await self._begin()
            await Loop("dashboard_events", self).run()
        finally:  # the server ends: let go of the browsers, which come back by themselves
            self.open = False
            self.wake()

    async def _begin(self) -> None:
        with contextlib.suppress(RedisError, OSError):
            newest: Any = await self._context.redis.xrevrange(keys.EVENTS, count=1)
            if newest:
                self._note(Entry(*newest[0]))

    async def step(self) -> float:
        """Wait for events and hand them on. Return 0: the next round is at once."""
        found: Any = await self._context.redis.xread({keys.EVENTS: self.cursor}, count=500, block=_READ_BLOCK_MS)
        if not found:
            return 0
        entries = [Entry(cursor, fields) for cursor, fields in found[0][1]]
        self._touch(entries)
        self._note(entries[-1])
        for viewer in list(self._viewers):
            viewer.hear(entries)
        return 0

    async def catch_up(self) -> None:
        """Let the next look see everything until now, also what `run` has yet to read."""
        ahead = await self._since(self.cursor)
        if ahead is None:
            self._fleet.touch_all()
        else:
            self._touch(ahead)

    def _touch(self, entries: list[Entry]) -> None:
        self._fleet.touch(entry.fields.get("session", "") for entry in entries)
        if any(entry.fields.get("type", "").startswith("hold.") for entry in entries):
            self._fleet.touch_all()  # a group, a phone or everything: more than one session

    def wake(self) -> None:
        """Let all open pages look again: somebody did something that makes no event."""
        self._fleet.touch_all()
        for viewer in self._viewers:
            viewer.news.set()

    def _note(self, entry: Entry) -> None:
        self.cursor = entry.cursor
        self.last_event_ms = int(float(entry.fields.get("at") or entry.cursor.partition("-")[0]))

    @contextlib.contextmanager
    def watching(self, viewer: "Viewer") -> Any:
        """Keep a page informed for as long as it is open."""
        self._viewers.add(viewer)
        try:
            yield
        finally:
            self._viewers.discard(viewer)

    async def missed(self, after: str) -> list[Entry] | None:
        """Give the events after a cursor; None when there are too many or the stream no longer goes back so far."""
        return None if after in ("", "0-0") else await self._since(after)

    async def _since(self, after: str) -> list[Entry] | None:
        raw: Any = await self._context.redis.xrange(keys.EVENTS, min=f"({after}", max="+", count=_MOST_MISSED + 1)
        return None if len(raw) > _MOST_MISSED else [Entry(cursor, fields) for cursor, fields in raw]


@dataclass(eq=False, slots=True)
class Viewer:
    """One open page: what it shows, and what it was sent last."""

    page: str
    query: Mapping[str, str]
    news: asyncio.Event = field(default_factory=asyncio.Event)
    lines: list[Entry] = field(default_factory=list)
    skipped: int = 0
    lost: bool = False
    """More happened than is known here; the log says so."""
    room: int = _MOST_CAUGHT_UP
    sent: dict[str, bytes] = field(default_factory=dict)

    def hear(self, entries: list[Entry]) -> None:
        """Take in what happened."""
        if self.page == "live-log":
            self.lines += entries
            over = len(self.lines) - _MOST_CAUGHT_UP
            if over > 0:
                self.skipped += over
                del self.lines[:over]
        self.news.set()

    def changed(self, parts: Mapping[str, Markup]) -> dict[str, str]:
        """Give the parts that look otherwise than when they were last sent."""
        fresh = {}
        for name, html in parts.items():
            mark = hashlib.blake2b(html.encode(), digest_size=8).digest()
            if self.sent.get(name) != mark:
                self.sent[name] = mark
                fresh[name] = str(html)
        return fresh


class Stream:
    """Feeds one open page."""

    def __init__(self, hub: Hub, desk: Desk, viewer: Viewer, look: Callable[[], Awaitable[View]], parts: Parts) -> None:
        self._hub, self._desk, self._viewer, self._look, self._parts = hub, desk, viewer, look, parts
        self._told = ""
        """The cursor up to which the browser has everything; only this goes to it as the event's id."""

    async def run(self, after: str) -> AsyncIterator[str]:
        """Yield server-sent events until the browser leaves."""
        viewer = self._viewer
        with self._hub.watching(viewer):
            # It has the cursor that the browser came with: were the stream to end here, nothing would be skipped.
            yield _event("hello", {"at": self._hub.last_event_ms}, after)
            self._told = after
            shown = await self._parts(self._desk, await self._look(), viewer.query)
            missed = await self._hub.missed(after)  # asked last: what happens during the look is missed, not shown
            if missed is not None and not missed:
                self._told = self._hub.cursor
                viewer.changed(shown)
            elif missed:
                viewer.hear(missed)
            else:
                viewer.lost = after not in ("", "0-0")
                viewer.news.set()
            loop = asyncio.get_running_loop()
            beat_at = loop.time() + BEAT_S
            idle_s = IDLE_S.get(viewer.page, _OTHERWISE_S)
            while self._hub.open:
                await self._wait(idle_s)
                for text in await self._batch():
                    beat_at = loop.time() + BEAT_S
                    yield text
                if loop.time() >= beat_at:
                    beat_at = loop.time() + BEAT_S
                    yield _event("beat", {"at": self._hub.last_event_ms}, self._told)

    async def _wait(self, idle_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(idle_s):
                await self._viewer.news.wait()
        if self._viewer.news.is_set():
            await asyncio.sleep(COALESCE_S)
            self._viewer.news.clear()

    async def _batch(self) -> list[str]:
        cursor = self._hub.cursor
        try:
            view = await self._look()
            fresh = self._viewer.changed(await self._parts(self._desk, view, self._viewer.query))
        except (RedisError, OSError) as error:
            log.warning("stream.store_away", error=str(error))
            return []
        lines = self._log_lines(view, cursor)
        before = self._told if lines else cursor
        texts = [_event("parts", {"at": self._hub.last_event_ms, "parts": fresh}, before)] if fresh else []
        self._told = cursor
        return texts + lines

    def _log_lines(self, view: View, cursor: str) -> list[str]:
        viewer = self._viewer
        if viewer.page != "live-log" or not (viewer.lines or viewer.lost):
            return []
        # What was missed and what came meanwhile overlap.
        entries = list({entry.cursor: entry for entry in sorted(viewer.lines, key=_order)}.values())
        viewer.lines = []
        lines = [log_page.line_of(view, entry) for entry in entries]
        wanted = [line for line in lines if log_page.passes(line, viewer.query)]
        shown, skipped = wanted[-viewer.room :], max(0, len(wanted) - viewer.room) + viewer.skipped
        html = [str(self._desk.macros.log_line(view, line)) for line in shown]
        if skipped or viewer.lost:
            unknown = 0 if viewer.lost else skipped
            html.insert(0, str(self._desk.macros.log_gap(view, unknown, _MOST_MISSED, cursor)))
        viewer.skipped, viewer.lost, viewer.room = 0, False, _MOST_LINES
        return [_event("lines", {"at": self._hub.last_event_ms, "lines": html, "skipped": skipped}, cursor)]


def _order(entry: Entry) -> tuple[int, int]:
    at, _, number = entry.cursor.partition("-")
    return int(at), int(number or 0)


def _event(kind: str, content: object, cursor: str) -> str:
    named = f"id: {cursor}\n" if cursor else ""
    return f"{named}event: {kind}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"
