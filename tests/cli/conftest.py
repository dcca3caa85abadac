"""A complete server as a process, and the command line on the same machine."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis import Redis as BlockingRedis

from tests.processes import whole_server
from wa_orchestrator.cli import main
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine import embedded_redis

PHONE = "972501234567"


@dataclass
class Running:
    """A running server and its data directory."""

    url: str
    data_dir: Path
    key: str = field(repr=False)
    redis: BlockingRedis

    def linked(self, session: str, phone: str = PHONE) -> None:
        """A session that is connected as far as the store knows; nobody starts a worker for it."""
        known: dict[Any, Any] = {
            "id": session, "status": "connected", "phone": phone, "first_connected_at": 1, "timezone": "UTC",
            "wanted": "stopped", "version": 1,
        }  # fmt: skip
        self.redis.hset(keys.session(session), mapping=known)
        self.redis.sadd(keys.SESSIONS_ALL, session)
        self.redis.sadd(keys.sessions_of_phone(phone), session)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server as a process, with a data directory of its own and no proxy: no worker is ever started."""
    home = tmp_path_factory.mktemp("server")
    settings = {"TIMEZONE": "UTC", "HOT_HOURS": "00:00-00:00", "RATE_LIMIT_PER_MINUTE": "100000"}
    settings["MONITOR_INTERVAL_MS"] = "3600000"  # nobody compares what tests write into Redis with what runs
    with whole_server(home, **settings) as (url, key):
        data = home / "data"
        redis = BlockingRedis.from_url(embedded_redis.url_in(data), decode_responses=True)
        yield Running(url, data, key, redis)


@dataclass(frozen=True)
class Said:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line as a person runs it in an empty directory: `main()` with its exit code."""
    for name in [name for name in os.environ if name.startswith(("WA_", "API_KEY", "DATA_DIR", "PROXY_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")

    def run(*arguments: str, typed: str = "") -> Said:
        monkeypatch.setattr(sys, "argv", ["wa-orchestrator", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as ended:
            main.main()
        shown = capsys.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 0, shown.out, shown.err)

    return run


@pytest.fixture
def wa(bare: Run, server: Running, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line beside the server: only its directory is known."""
    monkeypatch.setenv("DATA_DIR", str(server.data_dir))
    return bare
