"""Pages of a search over rows that are ordered by place, for every kind of archive."""

from collections.abc import Iterable
from typing import Protocol

from wa_orchestrator.archive.places import LAST_PLACE, instant_of, place_of
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_index import IndexEntry, newest_last


class Rows(Protocol):
    """Reads the places and ids of messages."""

    def __call__(self, low: int, high: int, most: int = -1, /) -> list[tuple[int, str]]:
        """Return the rows from `low` to before `high`, the newest first; all of them, or so many."""
        ...


def page(sources: Iterable[Rows], filters: Filters, after: IndexEntry | None, most: int) -> list[IndexEntry]:
    """Return the next `most` entries of all sources, the newest first by (accepted at, id)."""
    low = place_of(filters.since or 0)
    high = LAST_PLACE if filters.until is None else place_of(filters.until + 1)
    found: set[IndexEntry] = set()
    for rows_of in sources:
        rows: list[tuple[int, str]] = []
        before = high
        if after is not None:
            # Within a millisecond rows are not in the order of ids, so all of the cursor's are read.
            before = min(high, place_of(after[1]))
            rows += rows_of(max(low, place_of(after[1])), min(high, place_of(after[1] + 1)))
        older = rows_of(low, before, most)
        if len(older) == most:
            last = instant_of(older[-1][0])
            older += rows_of(max(low, place_of(last)), older[-1][0])
        found |= {(name, instant_of(place)) for place, name in (*rows, *older)}
    entries = sorted(found, key=newest_last, reverse=True)
    return [each for each in entries if after is None or newest_last(each) < newest_last(after)][:most]
