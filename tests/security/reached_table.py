"""The table in SECURITY.md of what hostile code in a worker reaches: read, and written by `make reached`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[2] / "SECURITY.md"
BEGIN: Final = "<!-- Written by `make reached` -->\n"
END: Final = "<!-- End of what `make reached` wrote -->\n"
ROW: Final = "code in a worker reaches"
COLUMNS: Final = ("process, server is root", "process, server is not root", "docker")
#: What every worker needs.
OWN: Final = {"its own directory", "its own token", "its proxy", "the server's routes for workers"}

Table = dict[str, dict[str, bool]]
"""Whether it is reached, by row and column."""


def read() -> Table:
    lines = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].splitlines()
    head, _, *rows = ([cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: {column: cell == "yes" for column, cell in zip(head[1:], row[1:], strict=True)} for row in rows}


def write(column: str, reached: Mapping[str, bool]) -> None:
    """Replace a column of the page by what was reached just now."""
    before = read()
    table = {what: {**before.get(what, dict.fromkeys(COLUMNS, False)), column: yes} for what, yes in reached.items()}
    whole = PAGE.read_text("utf-8")
    start, rest = whole.partition(BEGIN)[0], whole.partition(END)[2]
    PAGE.write_text(start + BEGIN + text(table) + END + rest, "utf-8")


def text(table: Table) -> str:
    """Return the table as it stands in the page; what is more than a worker needs is bold."""
    lines = [f"| {ROW} | {' | '.join(COLUMNS)} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    for what, row in table.items():
        yes = "yes" if what in OWN else "**yes**"
        lines.append(f"| {what} | {' | '.join(yes if row[column] else 'no' for column in COLUMNS)} |")
    return "\n".join(lines) + "\n"
