"""Programs in processes of their own: every line they print is kept, and can be waited for."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import PATIENCE_S
from wa_orchestrator.server import secrets

#: The command line of the product, whatever is on PATH.
PRODUCT = (sys.executable, "-c", "from wa_orchestrator.cli.main import main; main()")
_TAIL_LINES = 40

_held_ports: list[socket.socket] = []


def free_port() -> int:
    """A port that is this test process' own until it ends.

    It stays bound, so that the kernel gives it to nobody else, neither to a server nor to a connection; a server that
    asks for it by number may listen on it, because both set SO_REUSEADDR.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held_ports.append(holder)
    return int(holder.getsockname()[1])


def bare_environment() -> dict[str, str]:
    """What a program needs of this process' environment; settings of the person who runs the tests stay out."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


class Program:
    """A running program. What it prints goes to `log` as well, which outlives it."""

    def __init__(
        self, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._silent = False
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reading = threading.Thread(target=self._read, args=(log,), daemon=True)
        self._reading.start()

    def _read(self, log: Path) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output, log.open("ab", buffering=0) as kept:
            for line in output:
                kept.write(line)
                with self._news:
                    self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()

    def said(self, pattern: str, within_s: float = PATIENCE_S) -> re.Match[str]:
        """Wait until it has printed a line in which the pattern is found."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._silent, within_s)
            match = found()
        assert match is not None, f"{'it ended' if self._silent else 'it did not'} before {pattern!r}:\n{self.tail()}"
        return match

    def tail(self) -> str:
        """What it printed last."""
        return "\n".join(self.lines[-_TAIL_LINES:])

    def end(self, number: int = signal.SIGTERM, within_s: float = PATIENCE_S) -> int:
        """Send a signal and wait until it has ended and everything it printed is here. Killed if it does not end."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._reading.join(within_s)
        return code


@contextmanager
def whole_server(home: Path, **settings: str) -> Iterator[tuple[str, str]]:
    """Everything in one process, as `up` runs it without settings; gives its address and its API key."""
    command = (*PRODUCT, "up", "--data-dir", str(home / "data"), "--port", "0", "--gateway-port", "0")
    program = Program(command, log=home / "log", env=bare_environment() | settings, cwd=home)
    try:
        url = program.said(r"is ready: (http://\S+)")[1]
        yield url, secrets.stored_secrets(home / "data")["api_key"]
    finally:
        program.end(signal.SIGINT)  # ends its workers too
