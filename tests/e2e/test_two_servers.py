"""Two orchestrators behind a load balancer: one of them dies or is upgraded, and no worker notices."""

import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pytest

from tests.chaos import Record
from tests.e2e.balancer import balanced
from tests.e2e.product import Part, Product, home_of_its_own, unhurried
from tests.processes import free_port
from tests.waiting import promised, until
from wa_orchestrator.store import keys
from wa_orchestrator.store.sessions import CONTROL_LEASE

WORKERS, EACH = 3, 8
LEADER_WITHIN_S = 2.0
HAD = {"sent", "delivered", "read"}


@dataclass
class DoubledProduct(Product):
    """The product with a second orchestrator; workers and clients know only the balancer."""

    async def second(self) -> None:
        """Start the second orchestrator, which follows the first one."""
        env = self.parts["orchestrator"].env | {"ORCH_PORT": str(free_port()), "WORKER_PORT": str(free_port())}
        part = self._part("orchestrator-2", [*self.program, "orchestrator"], env)
        await until(lambda: _is_ready(part), "the second orchestrator answers")

    async def lease(self) -> str:
        """Return the lease of the one who leads; empty while nobody does."""
        return str(await self.redis.get(keys.lease(CONTROL_LEASE)) or "")

    def leader(self, lease: str) -> Part:
        """Return the orchestrator whose process has this lease."""
        return next(
            part
            for part in (self.parts["orchestrator"], self.parts["orchestrator-2"])
            if part.program is not None and f"-{part.program.process.pid}-" in lease
        )


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_an_orchestrator_dies_and_another_one_goes_on_with_the_same_workers(record_property: Record) -> None:
    worker_port = free_port()
    settings = unhurried(20) | {"COLD_PER_DAY": "5000", "COLD_PER_MINUTE": "60", "COLD_HOURS": "00:00-00:00"}
    settings |= {"WORKER_URL": f"http://127.0.0.1:{worker_port}"}
    phones = {f"w{n}": f"9725012{n:05d}" for n in range(WORKERS)}
    with home_of_its_own() as home:
        async with DoubledProduct(home, 2, settings) as running:
            await running.second()
            backends = [int(running.parts[name].env["WORKER_PORT"]) for name in ("orchestrator", "orchestrator-2")]
            async with balanced(worker_port, backends):
                await asyncio.gather(*(running.link(session, phone) for session, phone in phones.items()))
                workers = running.worker_pids()
                accepted = await _accept(running, phones)
                took_s = await _seconds_until_another_leads(running, ended_by=signal.SIGKILL)
                # An upgrade: workers keep running, and the other one leads at once.
                handed_over_s = await _seconds_until_another_leads(running, ended_by=signal.SIGTERM)
                statuses = await until(lambda: _statuses(running, accepted), "every message has ended", 300)
                arrived = [each for each in await running.arrivals() if each["text"] in accepted]
                after = running.worker_pids()
    record_property("leads_after_a_kill_s", round(took_s, 2))
    record_property("leads_after_an_upgrade_s", round(handed_over_s, 2))
    print(f"another one leads {took_s:.2f} s after a kill, {handed_over_s:.2f} s after SIGTERM")
    assert after == workers, "a worker was replaced"
    assert took_s < promised(LEADER_WITHIN_S)
    assert handed_over_s < promised(LEADER_WITHIN_S)
    assert set(statuses.values()) <= HAD, Counter(statuses.values())
    assert Counter(each["text"] for each in arrived) == Counter(list(accepted)), "lost, or sent twice"


async def _is_ready(part: Part) -> bool:
    with suppress(httpx.HTTPError):
        async with httpx.AsyncClient(timeout=60) as client:
            return (await client.get(f"http://127.0.0.1:{part.env['ORCH_PORT']}/health")).is_success
    return False


async def _seconds_until_another_leads(running: DoubledProduct, *, ended_by: int) -> float:
    """End the orchestrator that leads, and return how long after that signal another one does. The ended one comes back.

    Redis says who leads: on a busy machine that may change by itself, and a log tells it later.
    """
    lease = await until(running.lease, "somebody leads")
    ended = running.leader(lease)
    assert ended.program is not None
    begun = time.monotonic()
    os.kill(ended.program.process.pid, ended_by)

    async def another_leads() -> bool:
        taken = await running.lease()
        return bool(taken) and running.leader(taken) is not ended

    await until(another_leads, "another one leads")
    took_s = time.monotonic() - begun
    ended.end(ended_by)
    ended.start()
    await until(lambda: _is_ready(ended), "the ended orchestrator answers again")
    return took_s


async def _accept(running: Product, phones: dict[str, str]) -> dict[str, str]:
    accepted = {}
    for session in phones:
        for number in range(EACH):
            body = {"to": f"9725222{number:05d}", "message": f"{session} says {number}", "sessionId": session}
            answer = await running.door.post("/api/v1/send", json=body)
            assert answer.status_code == httpx.codes.ACCEPTED, answer.text
            accepted[body["message"]] = str(answer.json()["messageId"])
    return accepted


async def _statuses(running: Product, accepted: dict[str, str]) -> dict[str, str] | None:
    """Return how every message ended, or None while one has not."""
    found = {}
    for text, message in accepted.items():
        answer = await running.door.get(f"/api/v1/messages/{message}")
        found[text] = str(answer.json()["status"])
        if found[text] in ("queued", "scheduled", "sending"):
            return None
    return found
