"""Routes for records, faults, groups and proxies."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import PlainTextResponse

from wa_orchestrator.simulator.control.request_models import (
    FaultRequest,
    GroupRequest,
    OnPhone,
    OnProxy,
    Revision,
    ScenarioRequest,
)
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.phones.numbers import digits
from wa_orchestrator.simulator.proxies.pool import SocksPool
from wa_orchestrator.simulator.proxies.socks_server import DEFAULT_LATENCY_MS, SocksServer
from wa_orchestrator.simulator.telegram import Telegram
from wa_orchestrator.simulator.whatsapp.faults import KINDS
from wa_orchestrator.simulator.whatsapp.scenarios import Attempt

if TYPE_CHECKING:
    from wa_orchestrator.simulator.whatsapp.server import WhatsApp

OK = {"ok": True}
Log = Annotated[bool, Query(description="false omits the list of connections")]


class WorldRoutes:
    """The routes that do not belong to one phone."""

    def __init__(
        self, whatsapp: WhatsApp, pool: SocksPool, telegram: Telegram, add_proxy: Callable[[], Awaitable[SocksServer]]
    ) -> None:
        self._whatsapp = whatsapp
        self._pool = pool
        self._telegram = telegram
        self._add_proxy = add_proxy

    def router(self) -> APIRouter:
        """Return the router."""
        routes = APIRouter(tags=["world"])
        routes.get("/", summary="this list", response_class=PlainTextResponse)(self.overview)
        routes.get("/arrivals", summary="every message that reached WhatsApp")(self.arrivals)
        routes.get("/refusals", summary="messages that WhatsApp answered with an error")(self.refusals)
        routes.get("/connections", summary="open connections with their proxies")(self.connections)
        routes.get("/replacements", summary="connections that a newer one of their device ended")(self.replacements)
        routes.get("/chatstates", summary="chat states: who typed to whom")(self.chatstates)
        routes.get("/proxies", summary="log and counters of each proxy")(self.proxies)
        routes.post("/proxies", summary="add a proxy", status_code=201)(self.add_proxy)
        routes.get("/telegram", summary="messages sent to Telegram")(self.telegrams)
        routes.post("/groups", summary="create a group", status_code=201)(self.create_group)
        routes.put("/revision", summary="set the client revision that WhatsApp Web publishes")(self.set_revision)
        routes.post("/scenarios", summary="play back what happened to a message")(self.play)
        routes.post("/faults", summary="activate a fault")(self.fault)
        routes.delete("/faults", summary="end all faults")(self.clear_faults)
        return routes

    async def overview(self, request: Request) -> str:
        return _overview(request.app)

    async def arrivals(self, after: int = 0) -> list[dict[str, Any]]:
        return self._whatsapp.arrivals(after)

    async def refusals(self, after: int = 0) -> list[dict[str, Any]]:
        return self._whatsapp.refusals(after)

    async def connections(self) -> list[dict[str, Any]]:
        return self._whatsapp.connections()

    async def replacements(self, after: int = 0) -> list[dict[str, Any]]:
        return self._whatsapp.replacements(after)

    async def chatstates(self) -> list[dict[str, Any]]:
        return self._whatsapp.chatstates()

    async def proxies(self, *, log: Log = True) -> list[dict[str, Any]]:
        return [proxy.describe() | ({} if log else {"connections": []}) for proxy in self._pool]

    async def add_proxy(self) -> dict[str, Any]:
        return (await self._add_proxy()).describe()

    async def telegrams(self, after: int = 0) -> list[dict[str, Any]]:
        return self._telegram.received(after)

    async def create_group(self, body: GroupRequest) -> dict[str, Any]:
        members = [digits(member) for member in body.members]
        return {"jid": await self._whatsapp.create_group(digits(body.phone), body.subject, members, body.mode)}

    async def set_revision(self, body: Revision) -> dict[str, Any]:
        self._whatsapp.revision = body.revision
        return OK

    async def play(self, body: ScenarioRequest) -> dict[str, Any]:
        attempts = [Attempt([_named(fault) for fault in one.faults], one.read) for one in body.attempts]
        self._whatsapp.play(digits(body.sender), digits(body.recipient), attempts)
        return OK

    async def fault(self, body: FaultRequest) -> dict[str, Any]:
        extra = {_snake(name): value for name, value in (body.model_extra or {}).items()}
        match body.target:
            case OnProxy(proxy=reference):
                latency_ms = extra.get("latency_ms", DEFAULT_LATENCY_MS)
                proxy = self._pool.find(str(reference))
                await proxy.fault(body.kind, seconds=body.seconds, latency_ms=latency_ms)
            case "telegram":
                self._telegram.fault(body.kind, seconds=body.seconds, code=body.code)
            case target:
                phone = digits(target.phone) if isinstance(target, OnPhone) else None
                await self._whatsapp.fault(body.kind, phone=phone, seconds=body.seconds, code=body.code, **extra)
        return OK

    async def clear_faults(self) -> dict[str, Any]:
        await self._whatsapp.clear_faults()
        self._telegram.clear_faults()
        await self._pool.clear_faults()
        return OK


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _named(fault: dict[str, Any]) -> dict[str, Any]:
    """Return a fault with names as the simulator has them. Raises SimulatorError for an unknown kind."""
    kind = fault.get("kind")
    if kind not in KINDS:
        raise SimulatorError("UNKNOWN_FAULT", f"WhatsApp has no fault {kind!r}; it has {', '.join(KINDS)}.")
    return {_snake(name): value for name, value in fault.items()}


def _overview(app: FastAPI) -> str:
    lines = ["Simulator: WhatsApp, phones, proxies and Telegram on this machine.", ""]
    for path, methods in sorted(app.openapi()["paths"].items()):
        lines += [f"{method.upper():7}{path:32}{route.get('summary', '')}" for method, route in methods.items()]
    return "\n".join([*lines, "", "ProtobufFields of each request: /docs", ""])
