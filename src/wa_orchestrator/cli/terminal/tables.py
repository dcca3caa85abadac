"""Output for people: tables and lists of fields. Nothing is cut off or interpreted as markup."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_COLOURS = {
    "connected": "green", "OK": "green", "sent": "green", "delivered": "green", "read": "green", "passed": "green",
    "qr_ready": "yellow", "pending": "yellow", "disconnected": "yellow", "queued": "yellow", "scheduled": "yellow",
    "sending": "yellow", "stopped": "dim", "cancelled": "dim", "expired": "dim",
    "failed": "red", "BAD": "red", "ok": "green", "warning": "yellow", "problem": "red",
}  # fmt: skip
#: A file or a pipe has no width; this is wide enough for every table.
_WIDTH_WITHOUT_TERMINAL = 220


def console() -> Console:
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(markup=False, highlight=False, width=width, file=sys.stdout)


def table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], *, empty: str = "") -> None:
    """Print objects, or `empty` if there are none. `columns` are titles and the fields below them."""
    if not rows:
        console().print(empty)
        return
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for title in columns:
        drawn.add_column(title, overflow="fold")
    for row in rows:
        drawn.add_row(*(cell(name, row[name]) for name in columns.values()))
    console().print(drawn)


def fields(titles: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Print the fields of one object with their titles, one per line, without empty ones."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for title, name in titles.items():
        if values[name] not in (None, "", [], {}):
            drawn.add_row(title, cell(name, values[name]))
    console().print(drawn)


def line(text: str) -> None:
    console().print(text, soft_wrap=True)


def cell(name: str, value: Any) -> Text:
    """Return the value of a field as text; states have a colour, and fields named `…At` and `…Until` are timestamps."""
    is_time = name in ("at", "until") or name.endswith(("At", "Until"))
    text = when(value) if is_time else _said(value)
    return Text(text, _COLOURS.get(text.partition(" ")[0], ""))


def _said(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def when(timestamp: str | None) -> str:
    """Return a timestamp in this machine's own time."""
    if not timestamp:
        return ""
    return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
