"""What message ids are made of."""

import secrets
from typing import Final

_ID_BYTES: Final = 9
#: How many are drawn together. A fork would share them, and nothing here forks.
_AT_ONCE: Final = 256


class RandomIds:
    """Draws what ids are made of from the system, many at a time: each question to it costs more than the id."""

    def __init__(self) -> None:
        self._left: list[bytes] = []

    def draw(self) -> bytes:
        """Give nine random bytes that were given to nobody else."""
        if not self._left:
            drawn = secrets.token_bytes(_ID_BYTES * _AT_ONCE)
            self._left = [drawn[at : at + _ID_BYTES] for at in range(0, len(drawn), _ID_BYTES)]
        return self._left.pop()
