"""A day of a small fleet with a held clock: messages on every way, receipts, answers, a worker that dies, a dead proxy.

Client, workers and Prometheus speak HTTP with the real applications; only WhatsApp and the processes are missing.
"""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.conftest import HELD_CLOCK, Clock
from tests.dispatcher.scenario import NOON, NoSteps, settle
from tests.messages.conftest import Worker
from tests.monitoring.promql import Scrapes
from tests.orchestrator.fakes import ADMIN, API_KEY, FakeCheck, FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import linked
from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet import history
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.orchestrator import installation_check, service
from wa_orchestrator.orchestrator.notifications.alerts import Alerts
from wa_orchestrator.orchestrator.notifications.webhooks import WebhookDeliverer
from wa_orchestrator.orchestrator.proxies.monitor import check_due_proxies
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.server import bootstrap
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.timestamps import iso

#: Two samples in every range of five minutes.
STEP_S: Final = 240
STEPS: Final = 86_400 // STEP_S
HOUR: Final = 3600 // STEP_S
PHONES: Final = {f"s{number}": f"97250000000{number}" for number in range(1, 5)}
#: How the messages of the day end, again and again: by what their worker says, or because of how they were sent.
ENDS: Final = ("ack", "ack", "NOT_ON_WHATSAPP", "NO_ACK", "ack", "expire", "cancel")


#: prometheus_client's own parser takes ten times as long.
_SAMPLE: Final = re.compile(r"^((?:wa|process)_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def settings(directory: Path) -> Settings:
    proxies = tuple(SecretStr(f"socks5h://user:pass-phrase@proxy{number}.example.com:1080") for number in (1, 2, 3))
    return Settings(
        api_key=SecretStr(API_KEY),
        webhook_secret=SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw=="),
        dashboard_password=SecretStr("not-a-real-pass-phrase"),
        data_dir=directory,
        proxy_urls=proxies,
        provisioning_interval_ms=0,
        restart_interval_ms=0,
        cold_hours="00:00-00:00",
        cold_per_day=5000,
        timezone="UTC",
        allow_private_urls=True,
    )


class FleetDay:
    """The fleet, and what was scraped of it."""

    def __init__(self, redis: Redis, directory: Path) -> None:
        self.clock = Clock(redis)
        self.context = Context(settings(directory), redis, Scripts(redis, clock=HELD_CLOCK))
        self.runner, self.check = FakeRunner(), FakeCheck()
        self.control = service.assemble(self.context, self.runner, self.check)
        main, workers, _ = bootstrap.control_apps(self.control, [Gateway(self.context).router()])
        self.api = httpx.AsyncClient(transport=httpx.ASGITransport(main), base_url="http://server", headers=ADMIN)
        self.line = httpx.AsyncClient(transport=httpx.ASGITransport(workers), base_url="http://server")
        self.teller = Teller(self.context, self.line)
        self.dispatcher = Dispatcher(self.context, jitter=lambda: 0.5, clock_steps=NoSteps())
        self.alerts, self.deliverer = Alerts(self.context, [], gap_s=0), WebhookDeliverer(self.context)
        self.scrapes = Scrapes()
        self._ends = itertools.cycle(ENDS)
        self._expected: dict[str, str] = {}
        self._people = itertools.count(972530000000)

    @property
    def now_s(self) -> float:
        return self.clock.now_ms / 1000

    async def run(self, receiver: str) -> None:
        """Let the day pass; `receiver` is an address that takes webhooks."""
        await self.clock.set(NOON - 4 * 3_600_000)
        await installation_check.add_configured_proxies(self.context)
        await self.control.lease.step()
        for session, phone in PHONES.items():
            await linked(self.control, self.api, self.teller, session, phone)
        hook = webhooks.Webhook("w_1", receiver, ("message.failed",), "whsec_" + "A" * 44, "0-0", 1)
        await webhooks.put(self.context.scripts, hook)
        for step in range(STEPS):
            await self.clock.pass_ms(STEP_S * 1000)
            await self._step(step)
            await self._scrape()

    async def _step(self, step: int) -> None:
        await self.control.lease.step()
        if step % 3 == 0:
            await self._send()
        await settle(self.dispatcher)
        await self._work()
        if step % HOUR == 1:
            await self._hour()
        if step % (6 * HOUR) == 2:
            self.runner.die("s4")
            await part(self.control, ExitWatcher).step()
            await drive(self.control)
            await self.teller.connected("s4", PHONES["s4"])
        self.check.dead = {self.check.checked[0]} if 3 * HOUR < step < 5 * HOUR else set()
        await history.record(self.context.scripts)

    async def _send(self) -> None:
        """A client sends a message to somebody new."""
        end = next(self._ends)
        session = "s3" if end == "expire" else "s1"
        body: dict[str, Any] = {"to": str(next(self._people)), "message": "We open at nine.", "sessionId": session}
        if end == "expire":
            body["expiresAt"] = iso(self.clock.now_ms + 60_000)
            body["sendAt"] = iso(self.clock.now_ms + 59_000)
        answer = await self.api.post("/api/v1/send", json=body)
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        message = answer.json()["messageId"]
        self._expected[message] = end
        if end == "cancel":
            (await self.api.delete(f"/api/v1/messages/{message}")).raise_for_status()

    async def _work(self) -> None:
        """The worker takes what was released, and says what came of it."""
        session = await records.session(self.context.scripts, "s1")
        assert session is not None
        worker = Worker(self.line, self.context.settings, "s1", session.epoch)
        while claimed := await worker.claim():
            await self.clock.pass_ms(1500)
            if (end := self._expected[claimed["messageId"]]) != "ack":
                (await worker.nack(claimed, end)).raise_for_status()
                continue
            (await worker.ack(claimed)).raise_for_status()
            for status in ("delivered", "read"):
                said = {"whatsappId": claimed["whatsappId"], "status": status, "at": self.clock.now_ms}
                assert (await self.teller.tell("s1", "MESSAGE_STATUS", said)).is_success
            await self._answer(claimed["to"])

    async def _answer(self, person: str) -> None:
        """Who got a message answers."""
        said: dict[str, Any] = {"whatsappId": f"3A{person}", "from": f"{person}@s.whatsapp.net", "phone": person}
        said |= {"kind": "text", "text": "Thank you.", "at": self.clock.now_ms}
        answer = await self.teller.tell("s2", "MESSAGE_RECEIVED", said)
        assert answer.is_success, answer.text

    async def _hour(self) -> None:
        """Workers report their figures, proxies are checked, receivers get their events."""
        for session in PHONES:
            said = {"socket": "open", "rssBytes": 90_000_000, "lastTrafficAt": self.clock.now_ms}
            assert (await self.teller.tell(session, "PING", said, timestamp=self.clock.now_ms)).is_success
        await check_due_proxies(self.context, self.control.proxy_health)
        await self.alerts.step()
        await self.deliverer.step()
        await self.deliverer.idle()

    async def _scrape(self) -> None:
        text = (await self.api.get("/metrics")).text
        samples = ((name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(text))
        self.scrapes.add(self.now_s, samples)


@asynccontextmanager
async def receiver() -> AsyncIterator[str]:
    """An address that takes every webhook."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/events"
