"""The machine loses its power: every process ends at once, and with them what they had not synced to the disk."""

import asyncio
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.product import Product, unhurried
from tests.e2e.worker_line import WorkerLine
from tests.powered_disk import PoweredDisk, powered_disk
from tests.redis_server import DURABLE
from tests.waiting import PATIENCE_S, until
from wa_orchestrator.store.engine.append_only_file import drop_zeros
from wa_orchestrator.texts.catalogue import text

SESSION, PHONE = "north", "972501100701"
SERVICES = ("orchestrator", "gateway", "dispatcher-1")  # one dispatcher: the starts take most of the time here
PASSWORD = "not-a-real-pass-phrase"
SETTINGS = unhurried(20) | {
    "COLD_PER_DAY": "5000",
    "COLD_PER_MINUTE": "60",
    "COLD_HOURS": "00:00-00:00",
    "DASHBOARD_PASSWORD": PASSWORD,
}
EVERY_SECOND = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
SENT = ("sent", "delivered", "read")
#: Typed for some tenths of a second before it is written.
LONG = "We open at nine and close at six. " * 8
#: With `everysec`, a cut loses nothing if Redis has synced in the moment before.
MOST_CUTS = 8
_people = itertools.count(972527000000 + os.getpid() % 100 * 1000)

#: Every cut ends and starts everything, and there are several in each test.
pytestmark = [pytest.mark.slow, pytest.mark.asyncio, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Sending:
    """A message that was accepted."""

    message: str
    person: str


@dataclass
class Machine:
    """The product on a machine of its own: Redis, the server's files and the workers' are on its disk."""

    product: Product
    disk: PoweredDisk
    line: WorkerLine
    sent: list[Sending] = field(default_factory=list)

    async def cut_power(self) -> None:
        """Cut the power, and start the machine again."""
        before = await self._connections()
        probe = self.disk.place / "probe"
        probe.write_text("nobody syncs this")
        self._kill_everything()
        self.disk.cut_power()
        await until(self._has_ended, "every process has ended")
        self.disk.restore_power()
        assert not probe.exists() or not probe.read_bytes(), "void: the disk kept what nobody had synced"
        probe.unlink(missing_ok=True)
        drop_zeros(self.disk.place / "redis")  # as wherever the product starts its Redis
        self.product.parts["redis"].start()
        await until(self.product.redis_answers, "Redis answers")
        for name in SERVICES:
            self.product.parts[name].start()
        await until(self._gateway_answers, "the gateway answers", within_s=3 * PATIENCE_S)  # everything starts at once

        async def is_online() -> bool:  # by a new connection: WhatsApp lists a killed worker's for a moment
            return bool(await self._connections() - before)

        await until(is_online, "WhatsApp sees the phone", within_s=3 * PATIENCE_S)

    async def _connections(self) -> set[int]:
        connections = (await self.product.control.get("/connections")).raise_for_status().json()
        return {each["connection"] for each in connections if each["phone"] == PHONE}

    def _kill_everything(self) -> None:
        for name in ("redis", *SERVICES):  # Redis first: nobody can do more than a machine without power
            program = self.product.parts[name].program
            assert program is not None
            program.process.kill()
        for pid in self.product.worker_pids().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _has_ended(self) -> bool:
        for name in ("redis", *SERVICES):
            self.product.parts[name].end(signal.SIGKILL)
        workers = self.product.worker_pids().values()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not workers

    async def _gateway_answers(self) -> bool:
        with suppress(httpx.HTTPError):
            return (await self.product.door.get("/health")).is_success
        return False

    async def send(self, text: str = "We open at nine.") -> Sending:
        """Send to somebody new."""
        person = str(next(_people))
        body = {"to": person, "sessionId": SESSION, "message": text}
        answer = await self.product.door.post("/api/v1/send", json=body)
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        self.sent.append(Sending(answer.json()["messageId"], person))
        return self.sent[-1]

    async def status(self, sending: Sending) -> str:
        """The status of a message; empty if nobody knows it."""
        answer = await self.product.door.get(f"/api/v1/messages/{sending.message}")
        return "" if answer.status_code == httpx.codes.NOT_FOUND else str(answer.raise_for_status().json()["status"])

    async def reaches(self, sending: Sending, *statuses: str) -> None:
        last = "nobody asked yet"

        async def is_there() -> bool:
            nonlocal last
            message = await self.product.door.get(f"/api/v1/messages/{sending.message}")
            last = message.text
            return message.is_success and message.json()["status"] in statuses

        try:
            await until(is_there, lambda: f"{sending.message} is {' or '.join(statuses)}; it is {last}")
        except AssertionError as error:
            error.add_note((await self.product.api.get(f"/api/sessions/{SESSION}")).text)
            raise

    async def arrivals(self, sending: Sending) -> list[dict[str, Any]]:
        return [each for each in await self.product.arrivals() if each["to"] == sending.person]

    async def arrives(self, sending: Sending) -> None:
        async def has_arrived() -> bool:
            return bool(await self.arrivals(sending))

        await until(has_arrived, f"{sending.message} is at WhatsApp")

    async def is_shown_once(self, sending: Sending) -> None:
        """WhatsApp has seen one id for the message, and the recipient sees it once."""
        assert len({each["id"] for each in await self.arrivals(sending)}) == 1
        inbox = (await self.product.control.get(f"/phones/{sending.person}/inbox")).raise_for_status().json()
        assert len(inbox) == 1, inbox

    async def fault(self, kind: str, **more: Any) -> None:
        body = {"target": {"phone": PHONE}, "kind": kind, **more}
        (await self.product.control.post("/faults", json=body)).raise_for_status()

    async def received(self, person: str) -> int:
        """How often it was reported that this person has written."""
        written: Any = await self.product.redis.xrange("events")
        return sum(
            (fields["type"], fields.get("contact_phone")) == ("message.received", person) for _, fields in written
        )

    async def synced(self) -> None:
        """Wait until Redis has synced everything until now."""
        await self.product.redis.set("test:probe", 1)
        assert (await self.product.redis.waitaof(1, 0, 60_000))[0] == 1

    def log(self) -> str:
        return (self.product.home / "orchestrator.log").read_text()

    async def page(self) -> str:
        """The first page, as a person sees it after the login."""
        address = str(self.product.api.base_url).rstrip("/")
        async with httpx.AsyncClient(
            base_url=address, headers={"Origin": address}, follow_redirects=True, timeout=60
        ) as browser:
            await browser.post("/login", data={"password": PASSWORD, "name": "Dana"})
            return (await browser.get("/")).raise_for_status().text


@asynccontextmanager
async def machine(*redis_options: str) -> AsyncIterator[Machine]:
    """A machine with one linked session; its logs stay behind when a test fails."""
    home = Path(tempfile.mkdtemp(prefix="wao-e2e-"))
    with powered_disk(home / "disk", home / "data", megabytes=256) as disk:
        redis = disk.place / "redis"
        redis.mkdir()
        options: Sequence[str] = (*redis_options, "--dir", str(redis))
        line = WorkerLine()
        settings = SETTINGS | line.settings
        async with await line.serve(), Product(home, 1, settings, redis_options=options) as product:
            product.parts["dispatcher-2"].end()
            await product.link(SESSION, PHONE)
            yield Machine(product, disk, line)
    shutil.rmtree(home, ignore_errors=True)


async def just_accepted(machine: Machine) -> None:
    accepted = await machine.send()
    await machine.cut_power()
    await machine.reaches(accepted, *SENT)


async def claimed(machine: Machine) -> None:
    is_frozen = machine.line.freeze_with_message(machine.product.worker_pids()[SESSION])
    claimed = await machine.send()
    async with asyncio.timeout(PATIENCE_S):
        await is_frozen.wait()
    assert await machine.status(claimed) == "sending"
    await machine.cut_power()
    await machine.reaches(claimed, *SENT)


async def at_whatsapp_without_an_answer(machine: Machine) -> None:
    await machine.fault("no_receipts")
    await machine.fault("ack_delay", seconds=600)
    written = await machine.send()
    await machine.arrives(written)
    await machine.cut_power()
    (await machine.product.control.delete("/faults")).raise_for_status()
    await machine.reaches(written, *SENT)
    assert [each["repeat"] for each in await machine.arrivals(written)] == [False, True], "the server did not know"


async def sent_and_acknowledged(machine: Machine) -> None:
    sent = await machine.send()
    await machine.reaches(sent, *SENT)
    await machine.cut_power()
    assert await machine.status(sent) in SENT
    assert [each["repeat"] for each in await machine.arrivals(sent)] == [False], "sent again although it was recorded"


async def just_received(machine: Machine) -> None:
    person = str(next(_people))
    said = {"to": PHONE, "text": "When do you open?"}
    (await machine.product.control.post(f"/phones/{person}/say", json=said)).raise_for_status()
    await machine.cut_power()

    async def is_reported() -> bool:
        return await machine.received(person) > 0

    await until(is_reported, "what came in is reported")
    await machine.reaches(await machine.send(), *SENT)  # by then a second report would be here too
    assert await machine.received(person) == 1


async def test_with_our_settings_a_power_cut_loses_nothing_and_shows_nothing_twice() -> None:
    moments = (just_accepted, claimed, at_whatsapp_without_an_answer, sent_and_acknowledged, just_received)
    async with machine(*DURABLE) as machine_:
        for moment in moments:
            await moment(machine_)
        for sending in machine_.sent:
            await machine_.reaches(sending, *SENT)
            await machine_.is_shown_once(sending)
        assert "redis.not_durable" not in machine_.log()


async def one_cut(machine: Machine) -> tuple[bool, bool]:
    """Cut the power right after a message was sent and another accepted: is one sent again, is the other forgotten?"""
    sent = await machine.send(LONG)  # so long that Redis has synced it before it is written
    await machine.synced()
    await machine.reaches(sent, *SENT)
    accepted = await machine.send()
    await machine.cut_power()
    if not await machine.status(sent):  # it left and is forgotten, although Redis had said that it was synced
        assert len(await machine.arrivals(sent)) == 1
        return False, True
    await machine.reaches(sent, *SENT)
    await machine.is_shown_once(sent)
    if await machine.status(accepted):
        await machine.reaches(accepted, *SENT)
        await machine.is_shown_once(accepted)
        is_forgotten = False
    else:
        is_forgotten = await machine.arrivals(accepted) == []
        assert is_forgotten, "it left, and the server does not know it"
    return len(await machine.arrivals(sent)) > 1, is_forgotten


async def test_a_redis_that_syncs_every_second_is_warned_about_and_a_power_cut_loses_what_was_told() -> None:
    async with machine(*EVERY_SECOND) as machine_:
        assert "redis.not_durable" in machine_.log()
        assert text("en", "redis_weakness.APPENDFSYNC_NOT_ALWAYS") in await machine_.page()
        for _ in range(MOST_CUTS):
            if any(await one_cut(machine_)):
                return
        pytest.fail(f"void: {MOST_CUTS} power cuts, and each came when Redis had just synced")
