"""The whole product in one app over a real Redis, with sessions of two customers and a message of each."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.orchestrator.fakes import API_KEY, FakeRunner
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.access.permissions import EVERYTHING, Reach, Scope
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.messages import received_files
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.proxies.socks_check import ProxyCheck
from wa_orchestrator.orchestrator.service import Orchestrator
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
    """The app, a client without a key, and the ids of a message of each customer and of one that came in."""

    app: FastAPI
    workers: FastAPI
    """The application of the workers' own listener."""
    context: Context
    control: Orchestrator
    client: httpx.AsyncClient
    messages: dict[str, str] = field(default_factory=dict)
    received: dict[str, str] = field(default_factory=dict)
    conversations: dict[str, str] = field(default_factory=dict)

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


async def two_customers(redis: Redis, directory: Any, check: ProxyCheck | None = None, **changes: Any) -> TwoCustomers:
    """Make the app and its sessions; `changes` are settings."""
    given: dict[str, Any] = {
        "api_key": SecretStr(API_KEY),
        "webhook_secret": SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw=="),
        "dashboard_password": SecretStr("not-a-real-pass-phrase"),
        "data_dir": directory,
        "timezone": "UTC",
        "public_rate_per_minute": 1_000_000,  # walks ask more often than people
        "api_rate_per_minute": 1_000_000,
    }
    context = make_context(Settings(**given | changes), redis)
    control = service.assemble(context, FakeRunner(), check)
    app, workers, _ = bootstrap.control_apps(control, [Gateway(context).router()])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60)
    made = TwoCustomers(app, workers, context, control, client)
    for name, phone in PHONES.items():
        new = sessions.NewSession(name, phone, 0, direct="direct")
        await sessions.create(context.scripts, new, per_proxy=4, per_phone=4)
        long_ago = await context.scripts.now_ms() - 30 * 86_400_000
        linked: dict[Any, Any] = {"status": "connected", "first_connected_at": long_ago, "timezone": "UTC"}
        await redis.hset(keys.session(name), mapping=linked | {"label": LABELS[name]})
    for name in PHONES:
        key = context.settings.api_key.get_secret_value()
        answer = await made.send({"X-API-Key": key}, sessionId=name)
        assert answer.status_code == 202, answer.text
        made.messages[name] = answer.json()["messageId"]
        made.received[name] = await _receive_file(context, name)
        begun: dict[Any, Any] = {"session": name, "contact": "972533333333", "phone": "972533333333"}
        await redis.hset(keys.conversation(name, "972533333333"), mapping=begun)
        made.conversations[name] = conversation.id_of(name, "972533333333")
    return made


async def _receive_file(context: Context, session: str) -> str:
    """A picture that came in with a small one and was fetched; our id of the message."""
    await context.redis.hset(keys.incoming(session, "3A01"), mapping={"kind": "image", "media": "{}"})
    message_id = incoming.id_of(session, "3A01")
    await received_files.save(context.settings, session, _one(b"bytes"))
    await received_files.keep(context.settings, session, message_id)
    await received_files.keep_thumbnail(context.settings, message_id, b"bytes")
    return message_id


async def _one(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


def fields_of(fleet: TwoCustomers, operation: dict[str, Any]) -> list[str]:
    """Return the names of the fields of an operation's body."""
    shapes = fleet.app.openapi()["components"]["schemas"]
    found: list[str] = []

    def look(schema: dict[str, Any]) -> None:
        if "$ref" in schema:
            look(shapes[schema["$ref"].rpartition("/")[2]])
        for other in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            look(other)
        found.extend(schema.get("properties", ()))

    look(operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {}))
    return found
