"""The whole product as an operator of a larger installation runs it: every part a process of its own, each of which may die."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests import redis_server
from tests.processes import PRODUCT, Program, free_port
from tests.waiting import until

#: Seconds of real time after which the product may replace a worker, take a message back from one, or repeat one.
_PATIENCE_S = {"PING_TIMEOUT_MS": 100, "LEASE_MS": 60, "ACK_TIMEOUT_MS": 30}


def unhurried(scale: int) -> dict[str, str]:
    """Settings of a product that is `scale` times as fast as life, for tests that count workers or arrivals.

    Pings, leases and acks keep their time: scaled, they would be shorter than a busy machine lets a process wait, and
    the product is right to replace a worker or to repeat a message then.
    """
    patience = {name: str(seconds * scale * 1000) for name, seconds in _PATIENCE_S.items()}
    return {"TIME_SCALE": str(scale), **patience}


@dataclass
class Part:
    """One process of the product, which can be killed and started again."""

    name: str
    command: Sequence[str]
    env: dict[str, str]
    log: Path
    program: Program | None = None
    kills: int = 0

    def start(self) -> None:
        """Start it; what it prints goes to its log."""
        self.program = Program(self.command, env=self.env, log=self.log)

    def kill(self) -> None:
        """Kill it without a word, and start it again."""
        self.end(signal.SIGKILL)
        self.kills += 1
        self.start()

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it, and wait until it has ended."""
        if self.program is not None:
            self.program.end(number)


@dataclass
class Product:
    """A simulated world, a durable Redis, an orchestrator, a gateway and two dispatchers."""

    home: Path
    proxies: int
    settings: dict[str, str] = field(default_factory=dict)
    program: Sequence[str] = PRODUCT
    """The command line of the services."""
    redis_options: Sequence[str] = redis_server.DURABLE
    parts: dict[str, Part] = field(default_factory=dict)
    world: dict[str, Any] = field(default_factory=dict)
    key: str = "test-key-" + secrets.token_hex(16)

    async def __aenter__(self) -> Self:
        """Start everything in its order; nothing stays behind if that fails."""
        try:
            await self._start()
        except BaseException:
            self._end()
            raise
        return self

    async def _start(self) -> None:
        self._redis()
        await self._simulator()
        ports = {name: str(free_port()) for name in ("ORCH_PORT", "GATEWAY_PORT", "WORKER_PORT")} | self.settings
        env = self._environment() | ports
        for name, command in {
            "orchestrator": "orchestrator",
            "gateway": "gateway",
            "dispatcher-1": "dispatcher",
            "dispatcher-2": "dispatcher",
        }.items():
            self._part(name, [*self.program, command], env)
        headers = {"X-API-Key": self.key}
        self.api = httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['ORCH_PORT']}", headers=headers, timeout=60)
        self.door = httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['GATEWAY_PORT']}", headers=headers, timeout=60)
        # A connection of its own for each call: one that rests is closed by the simulator, maybe while the next call is written.
        unshared = httpx.Limits(max_keepalive_connections=0)
        self.control = httpx.AsyncClient(base_url=self.world["control"], timeout=60, limits=unshared)
        self.redis = Redis.from_url(self.redis_url, decode_responses=True)
        await until(lambda: self._answers(self.api), "the orchestrator answers")
        await until(lambda: self._answers(self.door), "the gateway answers")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything, workers too."""
        for client in (self.api, self.door, self.control):
            await client.aclose()
        await self.redis.aclose()
        self._end()

    def _end(self) -> None:
        outside = [self.parts.pop(name) for name in ("simulator", "redis") if name in self.parts]
        for part in reversed(self.parts.values()):
            part.end()
        for pid in self.worker_pids().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for part in outside:
            part.end()

    @property
    def redis_url(self) -> str:
        """Where Redis is."""
        return f"unix://{self.home}/redis.sock"

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PROXY_URL", "API_KEY"))}
        proxies = {f"PROXY_URL_{n}": url for n, url in enumerate(self.world["proxies"], 1)}
        return kept | proxies | {
            "DATA_DIR": str(self.home / "data"),
            "REDIS_URL": self.redis_url,
            "API_KEY": self.key,
            "WEBHOOK_SECRET": "whsec_" + "A" * 43 + "=",
            "DASHBOARD_PASSWORD": secrets.token_hex(16),
            "WORKER_CA_FILE": self.world["caFile"],
            "PROVISIONING_INTERVAL_MS": "100",
            "LOG_LEVEL": "info",
            **self.settings,
        }  # fmt: skip

    def _part(self, name: str, command: Sequence[str], env: dict[str, str]) -> Part:
        part = self.parts[name] = Part(name, command, env, self.home / f"{name}.log")
        part.start()
        return part

    def _redis(self) -> None:
        self._part("redis", redis_server.command(self.home, *self.redis_options), dict(os.environ))

    async def _simulator(self) -> None:
        command = [*PRODUCT, "simulate", "--json", "--data-dir", str(self.home / "world")]
        part = self._part("simulator", [*command, "--proxies", str(self.proxies)], dict(os.environ))
        assert part.program is not None
        ready = await asyncio.to_thread(part.program.said, r'^{"control".*')
        self.world = json.loads(ready[0])

    @staticmethod
    async def _answers(client: httpx.AsyncClient) -> bool:
        with suppress(httpx.HTTPError):
            return (await client.get("/health")).status_code == httpx.codes.OK
        return False

    # -- what people do -------------------------------------------------------------------------------------------

    async def link(self, session: str, phone: str) -> None:
        """Provision a session and scan its code with the simulated phone."""
        made = await self.api.post("/api/sessions/provision", json={"sessionId": session})
        assert made.status_code == httpx.codes.CREATED, made.text
        await self.scan(session, phone)

    async def scan(self, session: str, phone: str) -> None:
        """Scan the code of a session with the simulated phone, and wait until it is connected."""

        async def scanned() -> bool:
            shown = await self.api.get(f"/api/sessions/{session}/qr", headers={"Accept": "application/json"})
            if shown.status_code != httpx.codes.OK:
                return await self.is_connected(session)  # by a scan that took longer than the phone waited
            answer = await self.control.post(f"/phones/{phone}/scan", json={"qr": shown.json()["qr"]})
            return answer.is_success

        await until(scanned, f"{session} shows a code that can be scanned")
        await until(lambda: self.is_connected(session), f"{session} is connected")

    async def is_connected(self, session: str) -> bool:
        """Whether the API says so."""
        with suppress(httpx.HTTPError):
            answer = await self.api.get(f"/api/sessions/{session}")
            return answer.is_success and answer.json()["status"] == "connected"
        return False

    async def arrivals(self, after: int = 0) -> list[dict[str, Any]]:
        """The simulator's own ledger: every message that reached WhatsApp, but for the first `after`."""
        answer = await self.control.get("/arrivals", params={"after": after})
        found = answer.raise_for_status().json()
        return list(found["arrivals"] if isinstance(found, dict) else found)

    def worker_pids(self) -> dict[str, int]:
        """The workers of this product that run, by session."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, KeyError):
                env = dict(_pairs((place / "environ").read_bytes().split(b"\0")))
                if env["AUTH_DIR"].startswith(str(self.home)):
                    found[env["SESSION_ID"]] = int(place.name)
        return found

    async def redis_answers(self) -> bool:
        """Whether Redis is there and has loaded."""
        with suppress(RedisError, OSError):
            return bool(await self.redis.ping())
        return False


def _pairs(lines: Iterable[bytes]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (line.decode(errors="replace").partition("=") for line in lines)]


@asynccontextmanager
async def product(
    *,
    proxies: int,
    program: Sequence[str] = PRODUCT,
    redis_options: Sequence[str] = redis_server.DURABLE,
    **settings: str,
) -> AsyncIterator[Product]:
    """A whole product in a directory of its own; the logs stay behind when a test fails."""
    with home_of_its_own() as home:
        async with Product(home, proxies, settings, program, redis_options) as made:
            yield made


@contextmanager
def home_of_its_own() -> Iterator[Path]:
    """A directory with a short path, which stays behind when a test fails."""
    home = Path(tempfile.mkdtemp(prefix="wao-e2e-"))
    yield home
    shutil.rmtree(home, ignore_errors=True)
