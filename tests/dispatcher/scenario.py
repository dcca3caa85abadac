"""A small fleet for tests of dispatching: sessions that connect, messages that are accepted, workers that send."""

import json
from dataclasses import dataclass, field
from typing import Any, Unpack

from tests.conftest import Clock
from wa_orchestrator.context import Context
from wa_orchestrator.dispatcher.clock_steps import ClockSteps
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, proxies, records, sessions
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.leases import Holding, acquire_lease
from wa_orchestrator.store.messages import admission, outbox
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.outcomes import Written
from wa_orchestrator.store.records import MessageChanges, SessionChanges
from wa_orchestrator.store.sessions import slots

DAY_MS = 86_400_000
NOON = 1_750_000_000_000 - 1_750_000_000_000 % DAY_MS + DAY_MS // 2
"""Midday in UTC."""


def settings(**changes: Any) -> Settings:
    """Settings of an installation in UTC."""
    return Settings(**{"timezone": "UTC", **changes})


class NoSteps(ClockSteps):
    """For a clock that a test moves on: that is time that passes, however long the test itself takes."""

    def observe(self, _now_ms: int) -> bool:
        return False


@dataclass
class Scenario:
    """A store with sessions, and what a gateway and workers do with it."""

    scripts: Scripts
    settings: Settings
    made: int = 0
    epochs: dict[str, int] = field(default_factory=dict)
    clock_steps: ClockSteps = field(default_factory=NoSteps)

    @property
    def context(self) -> Context:
        return Context(self.settings, self.scripts.redis, self.scripts)

    def dispatcher(self, jitter: float = 0.5) -> Dispatcher:
        return Dispatcher(self.context, jitter=lambda: jitter, clock_steps=self.clock_steps)

    async def connect(self, session: str, phone: str, **fields: Unpack[SessionChanges]) -> None:
        """A connected session on a proxy of its own."""
        proxy = f"p_{session}"
        await proxies.add(self.scripts, proxy, url="socks5h://u:fake@p.example.com:1", masked=proxy, origin="operator")
        siblings = int(await self.scripts.redis.scard(keys.sessions_of_phone(phone)))
        new = sessions.NewSession(session, phone, siblings, candidates=[proxy], fields=fields)
        assert isinstance(await sessions.create(self.scripts, new, per_proxy=4, per_phone=4), sessions.Created)
        await self.register(session, phone)
        sticky = str(await self.scripts.redis.get(keys.sticky(phone)) or "")
        version = int(await self.scripts.redis.hget(keys.session(session), "version") or 0)
        binding = slots.Binding(self.epochs[session], phone, sticky, proxy, version, siblings, given="given")
        bound = await slots.bind(self.scripts, session, binding, per_proxy=4, per_phone=4)
        assert isinstance(bound, slots.Bound), bound

    async def register(self, session: str, phone: str) -> int:
        """A new epoch: a new worker is about to start."""
        holding = await acquire_lease(self.scripts, "control", owner="test", lease_ms=10**12)
        assert isinstance(holding, Holding)
        done = await sessions.register(self.scripts, session, phone=phone, lease=holding.value, day="20250615")
        assert isinstance(done, sessions.Registered), done
        self.epochs[session] = done.epoch
        return done.epoch

    async def put(self, session: str, status: str, reason: str = "") -> None:
        """Put a session into a status."""
        found = await records.session(self.scripts, session)
        assert found is not None
        step = sessions.Transition(found.version, status, reason, "TEST")
        assert isinstance(await sessions.advance(self.scripts, session, step), Written)

    async def accept(self, session: str, phone: str, to: str = "97251000001", **changes: Any) -> str:
        """Accept a message; its id."""
        self.made += 1
        fields = MessageChanges(kind="text", body=json.dumps({"kind": "text", "text": f"text {self.made}"}))
        fields |= changes.pop("fields", {})
        name = f"m_{self.made:018x}"
        message = admission.NewMessage(name, f"3EB0{self.made:018X}", phone, session, to, fields=fields, **changes)
        answer = await admission.accept(self.scripts, message, admission.Room(10**6, 10**6, 0))
        assert isinstance(answer, admission.Accepted), answer
        return name

    async def status(self, message: str) -> str:
        return str(await self.scripts.redis.hget(keys.message(message), "status"))

    async def reason(self, message: str) -> str:
        return str(await self.scripts.redis.hget(keys.message(message), "reason"))

    async def claim(self, session: str, phone: str) -> str | None:
        """The worker takes what was released; its id."""
        claimed = await outbox.claim(self.scripts, session, phone=phone, epoch=self.epochs[session], lease_ms=120_000)
        return claimed[0].message if isinstance(claimed, tuple) else None

    async def ack(self, message: str, at_ms: int = 0) -> None:
        """WhatsApp has it."""
        raw: Any = await self.scripts.redis.hmget(keys.message(message), ["phone", "session", "whatsapp_id", "to"])
        place, receipt = Place(message, raw[0], raw[1]), outbox.MessageReport(raw[1], "sent", raw[2], at_ms)
        await outbox.ack(self.scripts, place, receipt, to=raw[3], day="20250615")

    async def send(self, session: str, phone: str) -> str | None:
        """The worker takes what was released and sends it at once."""
        message = await self.claim(session, phone)
        if message is not None:
            await self.ack(message)
        return message

    async def events(self, kind: str) -> list[dict[str, str]]:
        found = await event_stream.read(self.scripts, most=10_000)
        return [dict(entry.fields) for entry in found if entry.fields["type"] == kind]


async def settle(dispatcher: Dispatcher) -> None:
    """Let a dispatcher do everything that is due now, and no more."""
    for _ in range(50):
        routed = await dispatcher.router.step()
        swept = await dispatcher.sweeper.step()
        looked = await dispatcher.releaser.step()
        if not routed and not swept and not looked.phones:
            return
    raise AssertionError("it goes round and round")


async def next_instant(scripts: Scripts) -> int | None:
    """The earliest instant at which anything is to happen by itself."""
    found = []
    for name in (keys.DUE, keys.SCHEDULED, keys.LEASES, keys.EXPIRING):
        first: Any = await scripts.redis.zrange(name, 0, 0, withscores=True)
        found += [int(score) for _, score in first]
    return min(found, default=None)


__all__ = ["DAY_MS", "NOON", "Clock", "Scenario", "next_instant", "settings", "settle"]
