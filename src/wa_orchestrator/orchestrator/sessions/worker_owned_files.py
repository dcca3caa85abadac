"""Files in the directory of a session: its worker can replace each by a link, a pipe, or a store that never ends.

Workers in containers can make links, and the server may be root: it reads and replaces such files by these functions.
"""

import contextlib
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: What the server reads of a store takes milliseconds; a view in place of a table can take for ever.
_READ_S: Final = 3.0
#: Steps of SQLite's machine between two looks at the clock.
_STEPS: Final = 100_000
#: The longest value that the server itself reads.
_LONGEST_VALUE: Final = 1_000_000


def opened(path: Path) -> int:
    """Open a file to read, and return its descriptor. Raises `OSError` for whatever is no file of its own."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path.name} is not a regular file")
    return handle


def is_file(path: Path) -> bool:
    """Whether there is a file, and not a link to one."""
    return path.is_file() and not path.is_symlink()


def copy(source: Path, target: Path) -> None:
    """Copy the content of a file."""
    with os.fdopen(opened(source), "rb") as read, target.open("wb") as written:
        shutil.copyfileobj(read, written)


def read(path: Path) -> bytes:
    """Return the content of a file."""
    with os.fdopen(opened(path), "rb") as file:
        return file.read()


def remove(path: Path) -> None:
    """Remove what has this name, if anything does."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def store(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a worker's store to read. Raises `sqlite3.Error` for a link, and where an answer takes too long."""
    if not is_file(path):
        raise sqlite3.OperationalError("not a regular file")
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
        limit(connection, _READ_S)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        yield connection


def limit(connection: sqlite3.Connection, seconds: float) -> None:
    """Interrupt what a store's schema makes of a question after so many seconds, and let it call nothing."""
    ends_at = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
    connection.execute("PRAGMA trusted_schema=OFF")
