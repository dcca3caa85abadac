"""How answers look to people: tables and short lists. Nothing is cut off, and nothing is taken for markup."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_COLOURS = {
    "connected": "green", "OK": "green", "sent": "green", "delivered": "green", "read": "green", "passed": "green",
    "qr_ready": "yellow", "pending": "yellow", "disconnected": "yellow", "queued": "yellow", "scheduled": "yellow",
    "sending": "yellow", "stopped": "dim", "cancelled": "dim", "expired": "dim",
    "failed": "red", "BAD": "red",
}  # fmt: skip
#: A file or a pipe has no width; this is wide enough for a table of ours.
_WITHOUT_TERMINAL = 220


@lru_cache(maxsize=1)
def _terminal() -> Console:
    return Console(markup=False, highlight=False)


def console() -> Console:
    """Where pages are printed."""
    if sys.stdout.isatty():
        return _terminal()
    return Console(markup=False, highlight=False, width=_WITHOUT_TERMINAL, file=sys.stdout)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
    """Print rows, or say in one line that there are none."""
    if not rows:
        console().print(empty)
        return
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*(cell(value) for value in row))
    console().print(drawn)


def facts(told: Mapping[str, Any]) -> None:
    """Print names and values, one per line, without those that say nothing."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in told.items():
        if value not in (None, "", [], {}):
            drawn.add_row(name, cell(value))
    console().print(drawn)


def line(text: str) -> None:
    """Print one line."""
    console().print(text, soft_wrap=True)


def cell(value: Any) -> Text:
    """Write a value; words of a state get their colour."""
    if value is None:
        return Text("")
    if isinstance(value, list | tuple):
        return Text(", ".join(map(str, value)))
    text = str(value)
    return Text(text, _COLOURS.get(text.partition(" ")[0], ""))


def when(instant: str | None) -> str:
    """Write an instant in this machine's own time."""
    if not instant:
        return ""
    return datetime.fromisoformat(instant).astimezone().strftime("%Y-%m-%d %H:%M:%S")
