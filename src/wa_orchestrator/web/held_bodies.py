"""Limits the bytes of request bodies in memory at once: per sender, per session, and in all.

A rate does not bound them: a slow sender holds for an hour what it may send in a minute.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.web.rates import rate_limited

_MIB: Final = 1024 * 1024
#: A worker has two events under way and a change of its credentials, each of at most 4 MiB; the rest is short.
PER_WORKER_BYTES: Final = 13 * _MIB
#: As much as so many workers: the tokens of those that were replaced are genuine, too.
_WORKERS_OF_SESSION: Final = 2
ALL_WORKERS_BYTES: Final = 128 * _MIB
_RETRY_AFTER_S: Final = 1


class HeldBodies:
    """Counts bytes of bodies by their sender, from before they are read until they are dealt with."""

    def __init__(self, per_sender: int = PER_WORKER_BYTES, in_all: int = ALL_WORKERS_BYTES) -> None:
        self._per_sender = per_sender
        self._in_all = in_all
        self._held: Counter[str] = Counter()
        self._held_by_session: Counter[str] = Counter()
        self._sum = 0

    @contextmanager
    def holding(self, sender: str, amount: int) -> Iterator[None]:
        """Count a body while the block runs; raises 429 where its sender has too many, 503 where all together have."""
        session = sender.partition(" ")[0]
        of_session = self._held_by_session[session] + amount
        if self._held[sender] + amount > self._per_sender or of_session > _WORKERS_OF_SESSION * self._per_sender:
            raise rate_limited(_RETRY_AFTER_S)
        if self._sum + amount > self._in_all:
            text = f"Too many long requests at once. Try again in {_RETRY_AFTER_S} s."
            raise Unavailable("BODIES_FULL", text, retryAfterS=_RETRY_AFTER_S)
        self._add(sender, session, amount)
        try:
            yield
        finally:
            self._add(sender, session, -amount)

    def _add(self, sender: str, session: str, amount: int) -> None:
        self._sum += amount
        for held, name in ((self._held, sender), (self._held_by_session, session)):
            held[name] += amount
            if not held[name]:
                del held[name]
