"""Pages of long lists; a cursor encodes the last item of a page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from wa_orchestrator.domain import whole_number
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.messages.message_index import IndexEntry

MOST = 500
#: Parameters of routes with pages.
Cursor = Annotated[str | None, Query(description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=MOST)]
T = TypeVar("T")


def encode(position: str) -> str:
    """Return the cursor for the last item's sort key."""
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def decode(cursor: str) -> str:
    """Return the sort key in a cursor; raise `Refused` when it is malformed."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise bad_cursor() from None


def decode_entry(cursor: str) -> IndexEntry:
    """Return the entry of an index of messages in a cursor; raise `Refused` when it is malformed."""
    score, _, name = decode(cursor).partition(" ")
    at = whole_number.parse(score)
    if at is None or not (name.isascii() and name):
        raise bad_cursor()
    return name, at


def bad_cursor() -> Refused:
    """Return the error for a malformed cursor."""
    return Refused("BAD_CURSOR", "The cursor is malformed. Use `next` of the page before, or none.")


def page(items: Sequence[T], cursor: str | None, limit: int, key: Callable[[T], str]) -> tuple[list[T], str | None]:
    """Return a page of `items`, which are sorted by `key`, and the next page's cursor or None."""
    after = None if cursor is None else decode(cursor)
    rest = [item for item in items if after is None or key(item) > after]
    shown = rest[:limit]
    return shown, encode(key(shown[-1])) if len(rest) > limit else None
