"""Cache of rendered fragments: an open page is rendered four times a second, and most of it does not change."""

import time
from collections.abc import Callable, Hashable
from typing import Final

from markupsafe import Markup

_MOST: Final = 2_000
#: Fragments have texts of people, which may be erased meanwhile; nobody gets them again, and they do not stay.
_KEPT_S: Final = 600.0


class Fragments:
    """A least-recently-used cache. A key has everything that its fragment depends on."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Markup] = {}
        self._begun_s = time.monotonic()

    def get(self, key: Hashable, make: Callable[[], Markup]) -> Markup:
        """Return a fragment, made if it is not known."""
        if time.monotonic() - self._begun_s > _KEPT_S:
            self._kept, self._begun_s = {}, time.monotonic()
        found = self._kept.pop(key, None)
        if found is None:
            found = make()
            if len(self._kept) >= _MOST:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = found
        return found
