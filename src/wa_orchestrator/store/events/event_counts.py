"""Counts of events and of the durations of messages since the installation began, for Prometheus.

They are in Redis and not in a process: every process reports the same figures, and a restart does not reset them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Entry

#: Upper limits of the buckets of a duration; one more bucket holds everything above.
BUCKETS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
#: Events that are counted by their note too: why a message returned to its queue, failed or stayed unconfirmed.
_BY_NOTE: Final = frozenset({EventType.MESSAGE_QUEUED, EventType.MESSAGE_FAILED, EventType.MESSAGE_UNKNOWN})
#: The durations of a message that was sent: from which of its instants to which.
_STEPS: Final = {
    "wait": ("wanted_at", "released_at"),
    "claim": ("released_at", "claimed_at"),
    "ack": ("claimed_at", ""),
}
_INSTANTS: Final = ("accepted_at", "due_at", "released_at", "claimed_at")


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a step took: how many messages are in each bucket, and the sum of all in seconds."""

    buckets: tuple[int, ...]
    sum_s: float


def add(pipe: Pipeline, entries: Sequence[Entry]) -> None:
    """Count events; a writer for `event_stream.consume`."""
    for name, count in Counter(_name(entry) for entry in entries).items():
        pipe.hincrby(keys.EVENT_COUNTS, name, count)


def _name(entry: Entry) -> str:
    kind = entry.fields.get("type", "")
    note = entry.fields.get("note", "") if kind in _BY_NOTE else ""
    return f"{kind} {note}" if note else kind


async def read(scripts: Scripts) -> dict[tuple[str, str], int]:
    """Return how many events there were, by type and note ('' = without one)."""
    raw: Any = await scripts.redis.hgetall(keys.EVENT_COUNTS)
    return {(name.partition(" ")[0], name.partition(" ")[2]): int(count) for name, count in raw.items()}


async def add_durations(scripts: Scripts, entries: Sequence[Entry]) -> None:
    """Add the durations of the messages that were sent. A crash before this leaves a few out, which is harmless."""
    sent = [
        entry for entry in entries if entry.fields.get("type") == EventType.MESSAGE_SENT and "message" in entry.fields
    ]
    if not sent:
        return
    found = await scripts.each(
        lambda pipe, key: pipe.hmget(key, _INSTANTS), (keys.message(entry.fields["message"]) for entry in sent)
    )
    counted: Counter[str] = Counter()
    for entry, values in zip(sent, found, strict=True):
        instants = dict(zip(_INSTANTS, values, strict=True)) | {"": entry.fields["at"]}
        # A message with a time of its own is not late before that.
        instants["wanted_at"] = max((instants["accepted_at"], instants["due_at"]), key=lambda at: float(at or 0))
        for step, (begins, ends) in _STEPS.items():
            if instants[begins] and instants[ends]:  # a late acknowledgement may find a message without a claim
                elapsed_ms = max(0, int(float(instants[ends])) - int(float(instants[begins])))
                counted[f"{step} {_bucket(elapsed_ms)}"] += 1
                counted[f"{step} sum_ms"] += elapsed_ms
    pipe = scripts.redis.pipeline(transaction=True)
    for name, count in counted.items():
        pipe.hincrby(keys.DURATION_COUNTS, name, count)
    await pipe.execute()


def _bucket(elapsed_ms: int) -> int:
    return next((at for at, limit_s in enumerate(BUCKETS_S) if elapsed_ms <= limit_s * 1000), len(BUCKETS_S))


async def durations(scripts: Scripts) -> dict[str, Duration]:
    """Return the durations of each step of a message."""
    raw: Any = await scripts.redis.hgetall(keys.DURATION_COUNTS)
    return {
        step: Duration(
            tuple(int(raw.get(f"{step} {at}", 0)) for at in range(len(BUCKETS_S) + 1)),
            int(raw.get(f"{step} sum_ms", 0)) / 1000,
        )
        for step in _STEPS
    }
