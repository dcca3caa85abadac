"""Generates random message ids in batches."""

import secrets
from typing import Final

_ID_BYTES: Final = 9
#: Ids generated together. A fork would share them, and nothing here forks.
_BATCH: Final = 256


class RandomIds:
    """Reads random bytes from the system for many ids at a time: each read costs more than an id."""

    def __init__(self) -> None:
        self._unused: list[bytes] = []

    def draw(self) -> bytes:
        """Return nine random bytes that were never returned before."""
        if not self._unused:
            random = secrets.token_bytes(_ID_BYTES * _BATCH)
            self._unused = [random[at : at + _ID_BYTES] for at in range(0, len(random), _ID_BYTES)]
        return self._unused.pop()
