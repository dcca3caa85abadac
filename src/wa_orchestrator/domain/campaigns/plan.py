"""When the messages of a campaign leave, and who of its senders takes the next ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

#: Messages of all kinds that may wait for a phone while a campaign adds to them: a reply is never far behind.
MOST_WAITING: Final = 3
#: The share of a phone's day that a campaign may use; the rest is for replies and others.
SHARE: Final = 0.8

LeavesAt = Callable[[int], int | None]
"""Returns when the nth further message of a queue leaves (ms); None when that is not known."""


@dataclass(frozen=True, slots=True)
class CampaignSender:
    """A session that may send, with what waits for its phone and what that may send today."""

    session: str
    waits: int
    room_today: int
    per_day: int

    @property
    def places(self) -> int:
        """How many messages it takes now. A part of its day is kept for others."""
        kept = self.per_day - int(self.per_day * SHARE)
        return max(0, min(MOST_WAITING - self.waits, self.room_today - kept))


def allot(rows: Sequence[tuple[int, str]], senders: Sequence[CampaignSender]) -> list[tuple[int, str]]:
    """Return which of these rows (row, the session of its conversation or '') go to which session now, in their order.

    Who has a conversation with one of the senders stays with it, and waits where that has no place.
    """
    places = {each.session: each.places for each in senders}
    given: list[tuple[int, str]] = []
    for row, known in rows:
        taker = known if known in places else max(places, key=lambda name: places[name], default="")
        if places.get(taker, 0) > 0:
            places[taker] -= 1
            given.append((row, taker))
    return given


def shares(queues: Mapping[str, LeavesAt], bound: Mapping[str, int], free: int) -> dict[str, int] | None:
    """Return how many messages of a campaign each queue gets; None when nobody can say.

    `bound` counts the recipients whose conversation is with a sender; `free` ones go to who is soonest.
    """
    counts = {name: bound.get(name, 0) for name in queues}
    soonest: list[tuple[int, str]] = []
    for name, taken in counts.items():
        at = queues[name](taken)
        if at is not None:
            soonest.append((at, name))
    heapify(soonest)
    for _ in range(free):
        if not soonest:
            return None
        _, name = heappop(soonest)
        counts[name] += 1
        after = queues[name](counts[name])
        if after is not None:
            heappush(soonest, (after, name))
    return counts


def leave_times(queues: Mapping[str, LeavesAt], counts: Mapping[str, int]) -> list[int] | None:
    """Return when each message leaves (ms), in order, of so many in each queue; None when nobody can say."""
    times = [queues[name](place) for name, count in counts.items() for place in range(count)]
    known = [at for at in times if at is not None]
    return sorted(known) if len(known) == len(times) else None
