"""A real Redis of the tests' own, on a Unix socket."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import Program
from wa_orchestrator.store.engine.embedded_redis import find_program

FORGETFUL = ("--save", "", "--appendonly", "no")
DURABLE = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


def command(home: Path, *options: str) -> tuple[str, ...]:
    """How it is started; it keeps everything in its directory."""
    where = ("--port", "0", "--unixsocket", str(home / "redis.sock"), "--dir", str(home))
    return (str(find_program().path), *where, *options)


class RedisServer:
    """A Redis that may die and come back with what it had on disk."""

    def __init__(self, home: Path, *options: str) -> None:
        self.socket = home / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._home = home
        self._options = options
        self._program: Program | None = None

    def start(self) -> None:
        """Start it; when this returns, it has loaded and answers."""
        self._program = Program(command(self._home, *self._options), log=self._home / "redis.log")
        self._program.said("(?i)ready to accept connections")

    def kill(self) -> None:
        """Let it die at once."""
        if self._program is not None:
            self._program.process.kill()
            self._program.process.wait()
            self._program = None
            self.socket.unlink(missing_ok=True)


@contextmanager
def redis_server(*options: str) -> Iterator[RedisServer]:
    """A running Redis in a directory whose path is short enough for a socket, and which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="wao-", ignore_cleanup_errors=True) as home:
        server = RedisServer(Path(home), *options)
        server.start()
        try:
            yield server
        finally:
            server.kill()
