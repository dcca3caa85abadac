"""Long lists in pages: a cursor names the last item that was given."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from wa_orchestrator.errors import Refused

MOST = 500
T = TypeVar("T")


def encode(position: str) -> str:
    """Make a cursor of the last item's sorting key."""
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def decode(cursor: str) -> str:
    """Read a cursor; raise `Refused` for what is none."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Refused("BAD_CURSOR", "This is no cursor of ours. Use `next` of the page before, or none.") from None


def page(items: Sequence[T], cursor: str | None, limit: int, key: Callable[[T], str]) -> tuple[list[T], str | None]:
    """Cut a page out of `items`, which are sorted by `key`. The second value is the next page's cursor, or None."""
    after = None if cursor is None else decode(cursor)
    rest = [item for item in items if after is None or key(item) > after]
    shown = rest[:limit]
    return shown, encode(key(shown[-1])) if len(rest) > limit else None
