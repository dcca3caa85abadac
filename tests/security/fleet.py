"""The whole product in one app over a real Redis, with sessions of two customers and a message of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.orchestrator.fakes import API_KEY, FakeRunner
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain.access import EVERYTHING, Reach, Scope
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.orchestrator import service
from wa_orchestrator.server import bootstrap
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.access import api_keys

MINE, THEIRS = "mine", "theirs"
PHONES = {MINE: "972500000001", THEIRS: "972500000002"}
LABELS = {MINE: "ours", THEIRS: "others"}
RECIPIENT = "972511111111"


@dataclass(slots=True)
class TwoCustomers:
    """The app, a client without a key, and the id of a message of each customer."""

    app: FastAPI
    context: Context
    client: httpx.AsyncClient
    messages: dict[str, str] = field(default_factory=dict)

    async def key(self, *scopes: Scope, reach: Reach = EVERYTHING, expires_at_ms: int = 0) -> dict[str, str]:
        """The header of a new key."""
        made = await api_keys.create(self.context.scripts, "crm", scopes, reach=reach, expires_at_ms=expires_at_ms)
        return {"X-API-Key": made[1]}

    async def send(self, headers: dict[str, str], **body: Any) -> httpx.Response:
        whole = {"to": RECIPIENT, "message": "hello", **body}
        return await self.client.post("/api/v1/send", headers=headers, json=whole)

    def routes(self) -> list[tuple[str, str, APIRoute]]:
        """Every route of the API: method, path, route."""
        found = [each for each in _flat(self.app.routes) if each.path.startswith("/api")]
        return [(method, route.path, route) for route in found for method in sorted(route.methods or ())]


def _flat(routes: Sequence[Any]) -> Iterator[APIRoute]:
    """Yield all routes, also those of included routers, which FastAPI keeps as they are."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from _flat(route.original_router.routes)


async def two_customers(redis: Redis, directory: Any) -> TwoCustomers:
    """Make the app and its sessions."""
    settings = Settings(
        api_key=SecretStr(API_KEY),
        webhook_secret=SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw=="),
        dashboard_password=SecretStr("not-a-real-pass-phrase"),
        data_dir=directory,
        timezone="UTC",
    )
    context = make_context(settings, redis)
    app = bootstrap.control_apps(service.assemble(context, FakeRunner()), [Gateway(context).router()]).main
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    made = TwoCustomers(app, context, httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60))
    for name, phone in PHONES.items():
        new = sessions.NewSession(name, phone, 0, direct="direct")
        await sessions.create(context.scripts, new, per_proxy=4, per_phone=4)
        long_ago = await context.scripts.now_ms() - 30 * 86_400_000
        linked: dict[Any, Any] = {"status": "connected", "first_connected_at": long_ago, "timezone": "UTC"}
        await redis.hset(keys.session(name), mapping=linked | {"label": LABELS[name]})
    for name in PHONES:
        answer = await made.send({"X-API-Key": API_KEY}, sessionId=name)
        assert answer.status_code == 202, answer.text
        made.messages[name] = answer.json()["messageId"]
    return made
