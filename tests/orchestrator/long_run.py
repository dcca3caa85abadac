"""A fleet over hours of a held clock: proxies that die, go mute or blink, an uplink that fails, a server that restarts.

Workers are light: they speak the real signed HTTP protocol, and behave as real ones when their way out is closed.
"""

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

import httpx
from redis.asyncio import Redis

from tests.conftest import HELD_CLOCK, Clock
from tests.orchestrator.fakes import ADMIN, FakeRunner, Teller, drive, part
from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.orchestrator import installation_check, service
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.monitor import check_due_proxies
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, CheckPassed
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher, Watchdog
from wa_orchestrator.runner.contract import WorkerSpec
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.web.app import make_app

TICK_S = 2
SESSIONS = 40
#: Every third phone has two sessions.
PHONES = tuple(f"9725000000{n - n // 4 if n % 4 == 3 else n:02d}" for n in range(SESSIONS))
PROXIES = tuple(f"socks5h://user:canary-password-{n}@proxy{n}.example.com:1080" for n in range(12))
#: The operator gave it to a session that nobody scans.
GIVEN, UNLINKED = "socks5h://user:canary-password-12@given.example.com:1080", f"s{SESSIONS}"
URLS = {proxy_url.proxy_id(url): url for url in (*PROXIES, GIVEN)}


def phone_of(session_id: str) -> str:
    """The phone of a session, '' where it is not linked."""
    return "" if session_id == UNLINKED else PHONES[int(session_id[1:])]


class Kind(StrEnum):
    """What goes wrong."""

    DEAD = "dead"
    """A proxy answers nobody, for long."""
    MUTE = "mute"
    """A proxy passes our checks and carries nothing."""
    BLIP = "blip"
    """A proxy answers nobody for some seconds, less than between a failed check and the one that confirms it."""
    UPLINK = "uplink"
    """Our own connection is down."""
    RESTART = "restart"
    """The server ends in good order, with its workers, and starts again."""
    KILL = "kill"
    """The server is killed; its workers live on."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong for a while."""

    kind: Kind
    from_s: int
    until_s: int
    url: str = ""

    def lasts(self, at_s: float) -> bool:
        """Whether it is wrong at this time."""
        return self.from_s <= at_s < self.until_s


@dataclass
class Device:
    """A worker: its way out, what it knows of it, and the events it has not delivered yet."""

    session: str
    phone: str
    epoch: int
    url: str
    notices_ms: int
    connected: bool = False
    next_try_ms: int = 0
    failures: int = 0
    down_since_ms: int = 0
    heard_ms: int = 0
    pinged_ms: int = 0
    unsent: list[tuple[str, dict[str, Any], int]] = field(default_factory=list)

    def live(self, now_ms: int, *, carries: bool) -> None:
        """Do what a worker does at this moment."""
        if self.connected and carries:
            self.down_since_ms = 0
            self.heard_ms = now_ms if now_ms - self.heard_ms >= 25_000 else self.heard_ms
        elif self.connected:
            self.down_since_ms = self.down_since_ms or now_ms
            if now_ms - self.down_since_ms >= self.notices_ms:
                self.connected, self.next_try_ms = False, now_ms + 2_000
                self._report("DISCONNECTED", {"reason": "lost", "code": 408, "willReconnect": True}, now_ms)
        elif now_ms >= self.next_try_ms and (self.phone or not carries):
            self._connect(now_ms, carries=carries)
        if now_ms - self.pinged_ms >= 15_000:
            self.pinged_ms = now_ms
            self._report(
                "PING", {"socket": "open" if self.connected else "closed", "lastTrafficAt": self.heard_ms}, now_ms
            )

    def _connect(self, now_ms: int, *, carries: bool) -> None:
        if carries:
            self.connected, self.failures, self.down_since_ms, self.heard_ms = True, 0, 0, now_ms
            data = {"phoneNumber": self.phone, "jid": f"{self.phone}:1@s.whatsapp.net"}
            self._report("CONNECTED", data, now_ms)
        else:  # it waits for the proxy for eight seconds, complains, and tries again later and later
            self.failures += 1
            self.next_try_ms = now_ms + 8_000 + min(60, 2**self.failures) * 1_000
            self._report("PROXY_ERROR", {"error": "no answer", "stage": "connect"}, now_ms)

    def _report(self, kind: str, data: dict[str, Any], now_ms: int) -> None:
        if kind == "PING":  # only the last one says anything
            self.unsent = [each for each in self.unsent if each[0] != "PING"]
        self.unsent.append((kind, data, now_ms))


class Fleet(FakeRunner):
    """Runs the devices."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world = world
        self.devices: dict[str, Device] = {}

    async def start(self, spec: WorkerSpec) -> str:
        handle = await super().start(spec)
        self.running[handle] = replace(self.running[handle], started_at_ms=self._world.now_ms)
        notices_ms = self._world.random.randrange(5_000, 35_000)
        self.devices[handle] = Device(
            spec.session_id,
            phone_of(spec.session_id),
            spec.epoch,
            spec.secrets["PROXY_URL"],
            notices_ms,
            pinged_ms=self._world.now_ms,
        )
        return handle

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        await super().stop(handle, grace_s)
        self.devices.pop(handle, None)


class World:
    """The truth: which faults last at which time. It also is the server's check of proxies and its long sleeps."""

    def __init__(self, redis: Redis, settings: Settings, faults: list[Fault], seed: int) -> None:
        self.random = Random(seed)
        self.faults = faults
        self.clock = Clock(redis)
        self.began_ms = 0
        self.fleet = Fleet(self)
        self.settings = settings
        self.redis = redis
        self.server: Server | None = None
        self.restarts = 0
        self.numbers = itertools.count(1)
        self._sleepers: list[tuple[int, asyncio.Event]] = []

    @property
    def now_ms(self) -> int:
        """The time of Redis."""
        return self.clock.now_ms

    @property
    def at_s(self) -> float:
        """Seconds since the faults begin to count."""
        return (self.now_ms - self.began_ms) / 1000

    def wrong(self, *kinds: Kind, at_s: float | None = None, url: str = "") -> bool:
        """Whether a fault of these kinds lasts (with this proxy)."""
        at_s = self.at_s if at_s is None else at_s
        return any(each.kind in kinds and each.lasts(at_s) and each.url in ("", url) for each in self.faults)

    def carries(self, url: str) -> bool:
        """Whether WhatsApp can be reached through a proxy."""
        return not self.wrong(Kind.UPLINK, Kind.DEAD, Kind.MUTE, Kind.BLIP, url=url)

    async def check(self, url: str) -> CheckPassed | CheckFailed:
        """The server's own check of a proxy."""
        if self.wrong(Kind.UPLINK, Kind.DEAD, Kind.BLIP, url=url):
            return CheckFailed(ProxyFailure.NO_ANSWER, "5")
        return CheckPassed(7)

    async def sleep(self, seconds: float) -> None:
        """Sleep by the held clock."""
        woken = asyncio.Event()
        self._sleepers.append((self.now_ms + round(seconds * 1000), woken))
        await woken.wait()

    async def tick(self) -> None:
        """Let two seconds pass, with everything that happens in them."""
        await self.clock.pass_ms(TICK_S * 1000)
        for sleeper in [each for each in self._sleepers if each[0] <= self.now_ms]:
            self._sleepers.remove(sleeper)
            sleeper[1].set()
        for device in list(self.fleet.devices.values()):
            device.live(self.now_ms, carries=self.carries(device.url))
        await self._start_or_stop()
        if self.server is not None:
            await self.server.step()

    async def _start_or_stop(self) -> None:
        if self.server is not None and self.wrong(Kind.RESTART, Kind.KILL):
            await self.server.end(orderly=self.wrong(Kind.RESTART))
            self.server, self.restarts = None, self.restarts + 1
            self._sleepers.clear()
        elif self.server is None and not self.wrong(Kind.RESTART, Kind.KILL):
            self.server = await Server.begin(self)

    async def exits(self) -> dict[str, str]:
        """The proxy of each session, '' for one that waits."""
        context = Context(self.settings, self.redis, Scripts(self.redis, clock=HELD_CLOCK))
        return {each.id: each.proxy for each in await records.sessions(context.scripts)}


class Server:
    """One life of the server."""

    def __init__(self, world: World, control: Orchestrator, client: httpx.AsyncClient) -> None:
        self._world = world
        self.control = control
        self.client = client
        self._teller = Teller(control.context, client)
        self._teller._numbers = world.numbers  # a worker goes on counting when the server starts again
        self._ticks = 0

    @classmethod
    async def begin(cls, world: World) -> "Server":
        """Start it; it leads at once."""
        context = Context(world.settings, world.redis, Scripts(world.redis, clock=HELD_CLOCK))
        control = service.assemble(context, world.fleet, world.check)
        control.proxy_health._present_since_ms = world.now_ms
        await installation_check.add_configured_proxies(context)
        await control.lease.step()
        app = make_app(context, [*control.routers, control.worker_events])
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return cls(world, control, httpx.AsyncClient(transport=transport, base_url="http://server", headers=ADMIN))

    async def step(self) -> None:
        """Take in what the workers report, then do what is due."""
        await self.control.lease.step()
        if self._ticks % 15 == 0:
            await part(self.control, Reconciler).step()
        for device in list(self._world.fleet.devices.values()):
            await self._hear(device)
        if self._ticks % 30 == 0:
            await part(self.control, Watchdog).step()
        await part(self.control, ExitWatcher).step()
        await check_due_proxies(self.control.context, self.control.proxy_health)
        await placement.assign_waiting(self.control.context)
        await self._settle()
        self._ticks += 1

    async def _hear(self, device: Device) -> None:
        unsent, device.unsent = device.unsent, []
        for kind, data, at_ms in unsent:
            answer = await self._teller.tell(device.session, kind, data, epoch=device.epoch, timestamp=at_ms)
            assert answer.status_code == 200 or "FENCED" in answer.text, answer.text

    async def _settle(self) -> None:
        """Let everything end that does not sleep by the held clock."""
        for _ in range(3):
            await drive(self.control)
            for _ in range(20):
                if not self.control.proxy_health._busy:
                    break
                await asyncio.sleep(0.001)

    async def end(self, *, orderly: bool) -> None:
        """End it, with its workers in good order, or at once and without them."""
        if orderly:
            await self.control.lease.retire()
            await self.control.stop_workers()
        for task in list(self.control.proxy_health._busy):
            task.cancel()
        await asyncio.gather(*self.control.proxy_health._busy, return_exceptions=True)
        await self._world.redis.delete(keys.lease("control"))  # its lease has expired when the next one starts
        await self.client.aclose()


def broken_laws(world: World, exits: dict[str, str]) -> Iterator[str]:
    """Yield what must never be: two exits of one phone, or a fifth session on a proxy."""
    by_phone: dict[str, set[str]] = defaultdict(set)
    for session, proxy in exits.items():
        by_phone[phone_of(session)] |= {proxy} - {""}
    for device in world.fleet.devices.values():
        by_phone[device.phone] |= {proxy_url.proxy_id(device.url)}
    yield from (f"{phone} has {len(found)} exits" for phone, found in by_phone.items() if len(found) > 1)
    load = Counter(device.url for device in world.fleet.devices.values())
    yield from (f"{count} workers on {url}" for url, count in load.items() if count > 4)
