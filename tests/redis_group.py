"""A primary with replicas and the Sentinels that watch them, on ports of this machine."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import redis_server
from tests.processes import Program, free_port
from wa_orchestrator.store.engine.embedded_redis import find_program

SERVICE = "wa"
_SENTINELS = 3
_WATCH = """
port {port}
dir {home}
sentinel monitor {service} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {service} 1000
sentinel failover-timeout {service} 4000
sentinel parallel-syncs {service} 2
"""


class RedisGroup:
    """Servers by number; the first one begins as the primary. Every one of them may die and come back."""

    def __init__(self, home: Path, *, replicas: int, options: Sequence[str] = redis_server.FORGETFUL) -> None:
        self._home = home
        self._options = options
        self.ports = [free_port() for _ in range(1 + replicas)]
        self.sentinel_ports = [free_port() for _ in range(_SENTINELS)]
        self.servers: dict[int, Program] = {}
        self._sentinels: list[Program] = []

    @property
    def url(self) -> str:
        """Where the services find it."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        return f"redis+sentinel://{hosts}/{SERVICE}/0"

    def start(self) -> None:
        """Start all servers, then the Sentinels."""
        for number in range(len(self.ports)):
            self.start_server(number)
        for number, port in enumerate(self.sentinel_ports):
            home = self._home / f"sentinel-{number}"
            home.mkdir()
            settings = home / "sentinel.conf"
            settings.write_text(_WATCH.format(port=port, home=home, service=SERVICE, primary=self.ports[0]))
            command = (str(find_program().path), str(settings), "--sentinel")
            self._sentinels.append(Program(command, log=home / "log"))
        for sentinel in self._sentinels:
            sentinel.said(r"\+monitor")
            for _ in self.ports[1:]:
                sentinel.said(r"\+slave ")

    def start_server(self, number: int) -> None:
        """Start a server, with what it had on disk; all but the first begin as replicas of it."""
        home = self._home / f"server-{number}"
        home.mkdir(exist_ok=True)
        follows = ("--replicaof", "127.0.0.1", str(self.ports[0])) if number else ()
        where = ("--port", str(self.ports[number]), "--bind", "127.0.0.1", "--dir", str(home))
        command = (str(find_program().path), *where, *self._options, "--repl-diskless-sync-delay", "0", *follows)
        self.servers[number] = Program(command, log=home / "log")
        self.servers[number].said("(?i)ready to accept connections")

    def signal(self, number: int, what: int) -> None:
        """Send a signal to a server: stop it, let it go on, or kill it."""
        os.kill(self.servers[number].process.pid, what)

    def end(self) -> None:
        for program in (*self._sentinels, *self.servers.values()):
            program.process.kill()
            program.process.wait()


@contextmanager
def redis_group(*, replicas: int) -> Iterator[RedisGroup]:
    """Yield a running group, which is gone afterwards."""
    with TemporaryDirectory(prefix="wao-group-", ignore_cleanup_errors=True) as home:
        group = RedisGroup(Path(home), replicas=replicas)
        try:
            group.start()
            yield group
        finally:
            group.end()
