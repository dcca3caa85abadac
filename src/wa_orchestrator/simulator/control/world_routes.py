"""What the simulated world saw, and what shall go wrong in it, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import PlainTextResponse

from wa_orchestrator.simulator.control.request_models import Fault, Group, OnPhone, OnProxy
from wa_orchestrator.simulator.phones.numbers import digits
from wa_orchestrator.simulator.proxies.pool import Pool
from wa_orchestrator.simulator.proxies.socks_server import DEFAULT_LATENCY_MS, Proxy
from wa_orchestrator.simulator.telegram import Telegram

if TYPE_CHECKING:
    from wa_orchestrator.simulator.whatsapp.server import WhatsApp

OK = {"ok": True}
Log = Annotated[bool, Query(description="false leaves the list of single connections empty")]


class WorldRoutes:
    """The routes that are about no phone in particular."""

    def __init__(
        self, whatsapp: WhatsApp, pool: Pool, telegram: Telegram, add_proxy: Callable[[], Awaitable[Proxy]]
    ) -> None:
        self._whatsapp = whatsapp
        self._pool = pool
        self._telegram = telegram
        self._add_proxy = add_proxy

    def router(self) -> APIRouter:
        """All of them, with what each is for."""
        routes = APIRouter(tags=["world"])
        routes.get("/", summary="this list", response_class=PlainTextResponse)(self.overview)
        routes.get("/arrivals", summary="every message that reached WhatsApp")(self.arrivals)
        routes.get("/refusals", summary="messages that WhatsApp answered with an error")(self.refusals)
        routes.get("/connections", summary="who is connected through what, since when")(self.connections)
        routes.get("/chatstates", summary="who typed to whom")(self.chatstates)
        routes.get("/proxies", summary="what passed through each proxy")(self.proxies)
        routes.post("/proxies", summary="one more proxy", status_code=201)(self.add_proxy)
        routes.get("/telegram", summary="what Telegram was sent")(self.telegrams)
        routes.post("/groups", summary="a new group", status_code=201)(self.make_group)
        routes.post("/faults", summary="let something go wrong")(self.fault)
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

    async def chatstates(self) -> list[dict[str, Any]]:
        return self._whatsapp.chatstates()

    async def proxies(self, *, log: Log = True) -> list[dict[str, Any]]:
        return [proxy.picture() | ({} if log else {"connections": []}) for proxy in self._pool]

    async def add_proxy(self) -> dict[str, Any]:
        return (await self._add_proxy()).picture()

    async def telegrams(self, after: int = 0) -> list[dict[str, Any]]:
        return self._telegram.received(after)

    async def make_group(self, body: Group) -> dict[str, Any]:
        members = [digits(member) for member in body.members]
        return {"jid": await self._whatsapp.make_group(digits(body.phone), body.subject, members)}

    async def fault(self, body: Fault) -> dict[str, Any]:
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


def _overview(app: FastAPI) -> str:
    lines = ["Simulated world: WhatsApp, phones, proxies and Telegram on this machine.", ""]
    for path, methods in sorted(app.openapi()["paths"].items()):
        lines += [f"{method.upper():7}{path:32}{told.get('summary', '')}" for method, told in methods.items()]
    return "\n".join([*lines, "", "Fields of each request: /docs", ""])
