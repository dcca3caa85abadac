"""Finds sessions and phones that have changed since a cursor, by events and by marks of changes without an event."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Reply, unexpected

#: How many events one call reads: more would block Redis for longer than a millisecond or two.
MOST_EVENTS: Final = 1000
READ_CHANGES: Final = "read_changes"


@dataclass(frozen=True, slots=True)
class FleetChanges:
    """Names of sessions whose records, and of phones whose figures, may have changed; the cursor for the next call."""

    cursor: str
    more: bool
    sessions: Sequence[str]
    phones: Sequence[str]


@dataclass(frozen=True, slots=True)
class StreamLost:
    """The cursor is of another stream: Redis was emptied or restored. Everything may have changed."""


def call(cursor: str) -> tuple[list[str], list[Argument]]:
    """Return keys and arguments of the script."""
    return [keys.EVENTS], [cursor, MOST_EVENTS]


def read(reply: Reply) -> FleetChanges | StreamLost:
    match reply:
        case ["changes", cursor, more, sessions, phones]:
            return FleetChanges(str(cursor), more == "more", json.loads(sessions), json.loads(phones))
        case ["lost"]:
            return StreamLost()
        case _:
            raise unexpected(READ_CHANGES, reply)


def marks_since(at_ms: int) -> tuple[Any, ...]:
    """Return the command that reads which sessions were changed without an event."""
    return ("ZRANGEBYSCORE", keys.SESSIONS_CHANGED, at_ms, "+inf")
