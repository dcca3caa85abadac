"""Renderings of live pages, shared by all viewers of a page with the same language and rights."""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import View


def _marks(parts: Mapping[str, Markup]) -> dict[str, bytes]:
    return {name: hashlib.blake2b(html.encode(), digest_size=8).digest() for name, html in parts.items()}


@dataclass(frozen=True, slots=True)
class Rendering:
    """The parts of a page at one moment."""

    view: View
    parts: Mapping[str, Markup]
    cursor: str
    """All events up to here are in it."""
    marks: dict[str, bytes] = field(init=False)
    """A digest of each part, to tell what has changed."""
    _texts: dict[frozenset[str], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", _marks(self.parts))

    def changed_since(self, sent: Mapping[str, bytes]) -> frozenset[str]:
        """Return the names of the parts that differ from what was sent."""
        return frozenset(name for name, mark in self.marks.items() if sent.get(name) != mark)

    def text_of(self, names: frozenset[str]) -> str:
        """Return parts as JSON; most viewers miss the same ones, so it is kept."""
        if names not in self._texts:
            chosen = {name: str(html) for name, html in self.parts.items() if name in names}
            self._texts[names] = json.dumps(chosen, ensure_ascii=False)
        return self._texts[names]


@dataclass(frozen=True, slots=True)
class _Entry:
    generation: int
    made_at_s: float
    task: asyncio.Task[Rendering]


class Renderings:
    """The latest rendering of each page that is watched. A new generation makes all of them old."""

    def __init__(self) -> None:
        self.generation = 0
        self._entries: dict[Hashable, _Entry] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Rendering]], *, fresh_s: float) -> Rendering:
        """Return the cached rendering of a page; it is rendered first if missing or older than `fresh_s`."""
        entry = self._entries.get(key)
        if entry is None or not self._is_fresh(entry, fresh_s):
            self._entries = {name: each for name, each in self._entries.items() if each.generation == self.generation}
            task = asyncio.ensure_future(make())
            entry = self._entries[key] = _Entry(self.generation, time.monotonic(), task)
        # Shielded: one who leaves must not take it from the others.
        return await asyncio.shield(entry.task)

    def _is_fresh(self, entry: _Entry, fresh_s: float) -> bool:
        failed = entry.task.done() and (entry.task.cancelled() or entry.task.exception() is not None)
        recent = time.monotonic() - entry.made_at_s < fresh_s
        return recent and entry.generation == self.generation and not failed
