"""A real PostgreSQL of the tests' own, on a Unix socket, as a user without rights."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.processes import Program

_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
_NOBODY = "nobody"
#: Nothing of it outlives the tests.
_FORGETFUL = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_wal_size=256MB")


def _without_rights() -> tuple[str, ...]:
    """What a command begins with that root may not run, as PostgreSQL's programs demand."""
    return () if os.geteuid() else ("setpriv", f"--reuid={_NOBODY}", "--regid=65534", "--clear-groups")


def _program(name: str) -> str:
    found = next((str(place / name) for place in _PLACES if (place / name).exists()), None) or shutil.which(name)
    if found is None:
        reason = f"there is no PostgreSQL here: {name} is missing"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return str(found)


@dataclass
class PostgresServer:
    """A server that may be ended and started again with what it had."""

    home: Path
    options: tuple[str, ...]

    def make(self) -> None:
        """Lay the files of a new server out."""
        command = [_program("initdb"), "-D", "data", "-U", "wa", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run([*_without_rights(), *command], cwd=self.home, capture_output=True, check=False)
        assert made.returncode == 0, made.stderr.decode()

    def start(self) -> None:
        """Start it; when this returns, it answers."""
        options = [part for option in (*self.options, "listen_addresses=") for part in ("-c", option)]
        place = ("-D", str(self.home / "data"), "-k", str(self.home))
        command = (*_without_rights(), _program("postgres"), *place, *options)
        self._program = Program(command, log=self.home / "log", cwd=self.home)
        self._program.said("ready to accept connections")

    def end(self) -> None:
        """End it at once, whoever is connected; what was committed stays."""
        self._program.end(signal.SIGQUIT)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://wa@/{database}?host={self.home}"

    def new_database(self) -> str:
        """Return the address of an empty database."""
        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def postgres_server(*options: str) -> Iterator[PostgresServer]:
    """A running server in a directory whose path is short enough for a socket, and which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="wao-pg-", ignore_cleanup_errors=True) as home:
        if _without_rights():
            os.chown(home, pwd.getpwnam(_NOBODY).pw_uid, -1)
        server = PostgresServer(Path(home), options or _FORGETFUL)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.end()
