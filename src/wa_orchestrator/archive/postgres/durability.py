"""Checks whether the PostgreSQL of the archive is durable: that commits survive the death of its machine."""

import contextlib
from dataclasses import dataclass

import psycopg

from wa_orchestrator.archive.postgres import schema
from wa_orchestrator.errors import Unavailable


@dataclass(frozen=True, slots=True)
class DatabasePromise:
    """Its version, and codes of what is weak about it."""

    version: str
    weaknesses: tuple[str, ...]


def check(url: str) -> DatabasePromise:
    """Ask the server; raises `Unavailable` when it does not answer."""
    try:
        with contextlib.closing(schema.open_reader(url)) as connection:
            shown = {
                name: str(connection.execute(f"SHOW {name}").fetchone()[0])  # type: ignore[index]  # always one row
                for name in ("server_version", "fsync", "full_page_writes")
            }
    except psycopg.Error as error:
        said = str(error).strip().partition("\n")[0]
        raise Unavailable("ARCHIVE_UNAVAILABLE", f"ARCHIVE_URL cannot be reached: {said}.") from error
    weaknesses = tuple(f"{name.upper()}_OFF" for name in ("fsync", "full_page_writes") if shown[name] == "off")
    return DatabasePromise(shown["server_version"], weaknesses)
