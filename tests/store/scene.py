"""A small stage for tests of the scripts: one phone, its session, and short verbs."""

from dataclasses import dataclass, field, replace

from tests.conftest import Clock
from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.store import keys, leases, proxies, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events.worker_events import EventDelivery
from wa_orchestrator.store.messages import admission, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.outcomes import Fenced, Unknown
from wa_orchestrator.store.sessions import slots

PHONE = "972500000001"
DAY_MS = 86_400_000
LEASE_MS = 60_000
PAUSE_MS = 5_000


@dataclass
class Scene:
    """Scripts with a stopped clock, and the operations of a case."""

    scripts: Scripts
    clock: Clock
    accepted: int = 0
    lease: str = ""
    places: dict[str, Place] = field(default_factory=dict)
    recipients: dict[str, str] = field(default_factory=dict)

    async def proxy(self, name: str = "p1") -> None:
        """A proxy in the pool."""
        await proxies.add(
            self.scripts, name, url=f"socks5h://user:fake@{name}.example.com:1080", masked=name, origin="operator"
        )

    async def connected(self, session: str = "w1", phone: str = PHONE, proxy: str = "p1") -> None:
        """A connected session with epoch 1 on this proxy."""
        await self.proxy(proxy)
        made = await sessions.create(
            self.scripts, sessions.NewSession(session, candidates=[proxy]), per_proxy=4, per_phone=4
        )
        assert made == sessions.Created(proxy)
        assert await self.register(session, phone="") == sessions.Registered(1)
        sticky = await self.scripts.redis.get(keys.sticky(phone)) or ""
        others = int(await self.scripts.redis.scard(keys.sessions_of_phone(phone)))
        binding = slots.Binding(1, phone, sticky, proxy, await self.version(session), others)
        assert isinstance(await slots.bind(self.scripts, session, binding, per_proxy=4, per_phone=4), slots.Bound)

    async def version(self, session: str = "w1") -> int:
        """The version of a session, as a decision would see it."""
        return int(await self.scripts.redis.hget(keys.session(session), "version") or 0)

    async def register(
        self, session: str = "w1", phone: str = PHONE, most_crashes: int | None = None
    ) -> sessions.Registered | sessions.NotLeader | Changed | Unknown:
        """A new epoch, by the holder of the control lease."""
        holding = await leases.acquire_lease(self.scripts, "control", owner="me", lease_ms=600_000)
        assert isinstance(holding, leases.Holding)
        self.lease = holding.value
        return await sessions.register(
            self.scripts, session, phone=phone, lease=self.lease, day="20250615", most_crashes=most_crashes
        )

    def message(
        self, to: str = "97251", session: str = "w1", phone: str = PHONE, **changes: object
    ) -> admission.NewMessage:
        """The next message."""
        self.accepted += 1
        name = f"m_{self.accepted:018x}"
        self.places[name] = Place(name, phone, session)
        self.recipients[name] = to
        made = admission.NewMessage(name, f"3EB0{self.accepted:018X}", phone, session, to)
        return made._replace(**changes)

    def room(self, **changes: int) -> admission.Room:
        """Room for everything, unless told otherwise."""
        return admission.Room(1000, 1000, self.clock.now_ms - 1000)._replace(**changes)

    async def accept(self, to: str = "97251", **changes: object) -> str:
        """Accept a message; its id."""
        message = self.message(to, **changes)
        answer = await admission.accept(self.scripts, message, self.room())
        assert isinstance(answer, admission.Accepted), answer
        return message.id

    async def route(self, message: str) -> queues.Queued | queues.Scheduled | queues.Gone | queues.NoSession:
        """Route a message."""
        return await queues.route(self.scripts, self.places[message], to=self.recipients[message])

    async def queued(self, to: str = "97251", **changes: object) -> str:
        """A message that waits in the queue; its id."""
        message = await self.accept(to, **changes)
        assert await self.route(message) == queues.Queued()
        return message

    def permit(self, **changes: object) -> queues.Permit:
        """Leave to speak, unless told otherwise."""
        now = self.clock.now_ms
        permit = queues.Permit(
            PAUSE_MS,
            100,
            1000,
            now - 1000,
            now + DAY_MS,
            now - 1000,
            now + DAY_MS,
            LEASE_MS,
            holds=("all", "session:w1"),
        )
        return replace(permit, **changes)  # type: ignore[arg-type]

    async def release(self, message: str, **changes: object) -> queues.Release:
        """Try to release a message."""
        return await queues.release(
            self.scripts, self.places[message], self.permit(**changes), other_name=self.recipients[message]
        )

    async def claim(
        self, epoch: int = 1, session: str = "w1", phone: str = PHONE, process: str = ""
    ) -> tuple[Place, outbox.Claimed] | Fenced | outbox.Empty:
        """A worker asks for work."""
        return await outbox.claim(self.scripts, session, phone=phone, epoch=epoch, lease_ms=LEASE_MS, process=process)

    async def sending(self, to: str = "97251", **changes: object) -> str:
        """A message that a worker of epoch 1 holds; its id."""
        message = await self.queued(to, **changes)
        assert isinstance(await self.release(message), queues.Released)
        assert isinstance(await self.claim(), tuple)
        return message

    async def confirm_write(self, message: str, epoch: int = 1, session: str = "w1", **changes: object) -> object:
        """A worker is about to write its message."""
        now = self.clock.now_ms
        permit = outbox.WritePermit(self.recipients[message], now - 1000, now + DAY_MS, ("all", "session:w1"))
        return await outbox.confirm_write(
            self.scripts,
            replace(self.places[message], session=session),
            replace(permit, **changes),  # type: ignore[arg-type]
            epoch=epoch,
            lease_ms=LEASE_MS,
        )

    async def ack(
        self,
        message: str,
        status: str = "sent",
        whatsapp_id: str = "",
        reporter: str = "",
        delivery: EventDelivery | None = None,
    ) -> object:
        """Somebody says that WhatsApp has it."""
        name = whatsapp_id or "3EB0" + message[2:].upper()
        receipt = outbox.MessageReport(reporter or self.places[message].session, status, name, self.clock.now_ms)
        to = self.recipients[message]
        return await outbox.ack(self.scripts, self.places[message], receipt, to=to, day="20250615", delivery=delivery)

    async def nack(
        self,
        message: str,
        epoch: int = 1,
        backoff_ms: int | None = 0,
        attempts: int = 1,
        *,
        session: str | None = None,
        doubt: Doubt = Doubt.KEPT,
    ) -> object:
        """The worker of the message's session, or of another one, says that it could not."""
        place = self.places[message] if session is None else replace(self.places[message], session=session)
        verdict = outbox.FailureVerdict(attempts, "ACK_TIMEOUT", backoff_ms, doubt)
        return await outbox.nack(self.scripts, place, epoch=epoch, verdict=verdict, day="20250615")

    async def reclaim(self, message: str, most_crashes: int = 3) -> object:
        """The server looks at an old lease."""
        return await outbox.reclaim(self.scripts, self.places[message], most_crashes=most_crashes, day="20250615")

    async def status(self, message: str) -> str:
        """What the record says."""
        return str(await self.scripts.redis.hget(keys.message(message), "status"))
