"""Bytes of request bodies in memory at once: so many of each sender, and so many in all.

A rate does not bound them: whoever sends slowly holds for an hour what he was allowed to send in a minute.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.web.rates import rate_limited

_MIB: Final = 1024 * 1024
#: A worker has two events under way and a change of its credentials, each of at most 4 MiB; the rest is short.
PER_WORKER_BYTES: Final = 3 * 4 * _MIB
ALL_WORKERS_BYTES: Final = 128 * _MIB
_RETRY_AFTER_S: Final = 1


class HeldBodies:
    """Counts bytes of bodies by their sender, from before they are read until they are dealt with."""

    def __init__(self, per_sender: int = PER_WORKER_BYTES, in_all: int = ALL_WORKERS_BYTES) -> None:
        self._per_sender = per_sender
        self._in_all = in_all
        self._held: Counter[str] = Counter()
        self._sum = 0

    @contextmanager
    def holding(self, sender: str, amount: int) -> Iterator[None]:
        """Count a body while the block runs; raises 429 where its sender has too many, 503 where all together have."""
        if self._held[sender] + amount > self._per_sender:
            raise rate_limited(_RETRY_AFTER_S)
        if self._sum + amount > self._in_all:
            text = f"Too many long requests at once. Try again in {_RETRY_AFTER_S} s."
            raise Unavailable("BODIES_FULL", text, retryAfterS=_RETRY_AFTER_S)
        self._add(sender, amount)
        try:
            yield
        finally:
            self._add(sender, -amount)

    def _add(self, sender: str, amount: int) -> None:
        self._sum += amount
        self._held[sender] += amount
        if not self._held[sender]:
            del self._held[sender]
