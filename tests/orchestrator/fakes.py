"""A runner in memory, a check that says what it is told to, and a worker that only signs events."""

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx
from standardwebhooks.webhooks import Webhook

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.loop import Loop
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, CheckPassed
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.orchestrator.workers.session_controller import SessionController
from wa_orchestrator.orchestrator.workers.start_queue import StartQueue
from wa_orchestrator.runner.contract import AlreadyRunning, Exited, Running, StartFailed, WorkerSpec
from wa_orchestrator.store import keys

T = TypeVar("T")
API_KEY = "wao_5vR8kq2LxZt7mB1nWd9s"
ADMIN = {"X-API-Key": API_KEY}


class FakeRunner:
    """Keeps the contract without a process."""

    def __init__(self) -> None:
        self.running: dict[str, FoundWorker] = {}
        self.started: list[WorkerSpec] = []
        self.stops: list[tuple[str, float]] = []
        self.refuses = False
        self.is_away = False
        self._numbers = itertools.count(1)

    async def start(self, spec: WorkerSpec) -> str:
        if self.is_away:
            raise Unavailable("ENGINE_AWAY", "the engine does not respond")
        if any(found.session_id == spec.session_id for found in self.running.values()):
            raise AlreadyRunning(spec.session_id)
        if self.refuses:
            raise StartFailed("it was told not to")
        handle = f"fake/1/{next(self._numbers)}"
        self.running[handle] = FoundWorker(handle, spec.session_id, spec.epoch, round(time.time() * 1000))
        self.started.append(spec)
        return handle

    async def poll(self, handle: str) -> Running | Exited:
        return Running() if handle in self.running else Exited()

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        self.stops.append((handle, grace_s))
        self.running.pop(handle, None)

    async def survey(self) -> Sequence[FoundWorker]:
        return list(self.running.values())

    def epochs(self) -> dict[str, int]:
        """The epoch that runs for each session."""
        return {found.session_id: found.epoch for found in self.running.values()}

    def die(self, session_id: str) -> None:
        """End a worker behind the server's back."""
        self.running = {name: found for name, found in self.running.items() if found.session_id != session_id}


class FakeCheck:
    """Passes every proxy except those it was told are dead."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.checked: list[str] = []

    async def __call__(self, url: str) -> CheckPassed | CheckFailed:
        self.checked.append(url)
        return CheckFailed(ProxyFailure.NO_ANSWER, "5") if url in self.dead else CheckPassed(7)


def part(control: Orchestrator, kind: type[T]) -> T:
    """Return the object whose step one of the control plane's loops repeats."""
    owners = (getattr(loop.step, "__self__", None) for loop in control.loops if isinstance(loop, Loop))
    return next(owner for owner in owners if isinstance(owner, kind))


async def drive(orchestrator: Orchestrator) -> None:
    """Let the control plane do everything that waits, without its clocks."""
    controller = part(orchestrator, SessionController)
    redis = orchestrator.context.redis
    await orchestrator.lease.step()  # a test may take longer than a lease
    for _ in range(200):
        while (waiting := await redis.lpop(keys.CONTROL_ATTEND)) is not None:
            await controller.attend(str(waiting))
        if not await redis.llen(keys.PROVISIONING) and not await redis.llen(keys.RESTARTING):
            if not await redis.llen(keys.CONTROL_ATTEND):
                return
            continue
        await asyncio.sleep(await part(orchestrator, StartQueue).step())
    raise AssertionError("the control plane does not come to rest")


class Teller:
    """Speaks as the worker of a session's present epoch."""

    def __init__(self, context: Context, client: httpx.AsyncClient) -> None:
        self._context = context
        self._client = client
        self._numbers = itertools.count(1)

    async def tell(
        self, session_id: str, kind: str, data: dict[str, Any], *, epoch: int | None = None, **changes: Any
    ) -> httpx.Response:
        """Sign and send an event. `changes` spoil it: secret, webhook_id, sent_ago_s, timestamp, path, body, leave_out."""
        number = next(self._numbers)
        if epoch is None:
            epoch = int(await self._context.redis.hget(keys.session(session_id), "epoch") or 0)
        at_ms = changes.get("timestamp", round(time.time() * 1000) + number)
        raw = {
            "sessionId": session_id,
            "type": kind,
            "timestamp": at_ms,
            "epoch": epoch,
            "sequence": number,
            "data": data,
        }
        body = json.dumps({name: value for name, value in raw.items() if name not in changes.get("leave_out", ())})
        secret = changes.get("secret") or tokens.mint(self._context.settings, session_id, epoch).webhook_secret
        webhook_id = changes.get("webhook_id", f"evt_{number}")
        sent_at = datetime.fromtimestamp(time.time() - changes.get("sent_ago_s", 0), tz=UTC)
        headers = {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(int(sent_at.timestamp())),
            "webhook-signature": Webhook(secret).sign(webhook_id, sent_at, body),
        }
        return await self._client.post(
            changes.get("path", "/webhook"), content=changes.get("body", body), headers=headers
        )

    async def qr(self, session_id: str, text: str = "2@ref,key", lasts_ms: int = 60_000) -> httpx.Response:
        """Show a QR."""
        expires = round(time.time() * 1000) + lasts_ms
        return await self.tell(session_id, "QR_CODE", {"qr": text, "expiresAt": expires})

    async def connected(self, session_id: str, phone: str, **changes: Any) -> httpx.Response:
        """Be linked and online."""
        data = {"phoneNumber": phone, "jid": f"{phone}:1@s.whatsapp.net"}
        return await self.tell(session_id, "CONNECTED", data, **changes)

    async def disconnected(self, session_id: str, code: int, reason: str = "", **changes: Any) -> httpx.Response:
        """Lose the connection."""
        data = {"reason": reason, "code": code, "willReconnect": False}
        return await self.tell(session_id, "DISCONNECTED", data, **changes)
