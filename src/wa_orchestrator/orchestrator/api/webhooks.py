"""Webhooks as an operator manages them: where events go, what was delivered, and once more."""

import base64
import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field

from wa_orchestrator import outbound_http
from wa_orchestrator.context import Context
from wa_orchestrator.domain import stream_events
from wa_orchestrator.errors import Refused
from wa_orchestrator.store import audit, event_stream, keys, webhooks
from wa_orchestrator.store.webhooks import State, Webhook
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses

MOST_WEBHOOKS = 50


def _known(pattern: str) -> str:
    if not stream_events.is_pattern(pattern):
        raise ValueError("selects no type of event; docs/events.md lists them")
    return pattern


Pattern = Annotated[str, AfterValidator(_known), Field(examples=["message.*"])]


class WebhookBody(RequestModel):
    """A system that wants to hear."""

    url: Annotated[str, Field(min_length=1, max_length=2048, examples=["https://crm.example.com/whatsapp"])]
    events: Annotated[list[Pattern], Field(min_length=1, max_length=50)] = Field(
        ["*"], description="Types of events: `*`, `message.*`, `session.connected`."
    )


def router(context: Context) -> APIRouter:
    """Offer `/api/v1/webhooks`."""
    routes = APIRouter(prefix="/api/v1/webhooks", tags=["webhooks"])
    api, missing = _Webhooks(context), responses(NO_SUCH_WEBHOOK=404)
    routes.get("", summary="All webhooks; secrets are not shown again")(api.listed)
    routes.post(
        "",
        status_code=201,
        summary="Add one; the answer holds its secret, once",
        responses=responses(TOO_MANY_WEBHOOKS=409, URL_REFUSED=422),
    )(api.add)
    one = "/{webhook_id}"
    routes.delete(one, summary="Delete one, with what waits for it", responses=missing)(api.delete)
    routes.post(f"{one}/enable", summary="Deliver to it again", responses=missing)(api.enable)
    routes.get(f"{one}/deliveries", summary="What was delivered, and what was not", responses=missing)(api.deliveries)
    routes.post(
        f"{one}/deliveries/{{number}}/replay",
        status_code=202,
        summary="Deliver once more",
        responses=responses(NO_SUCH_WEBHOOK=404, NO_SUCH_DELIVERY=404, WEBHOOK_DISABLED=409),
    )(api.replay)
    return routes


class _Webhooks:
    """One method per route."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts

    async def listed(self, _: AdminCaller) -> dict[str, Any]:
        found = (await webhooks.every(self._scripts)).values()
        return {"webhooks": [shown(each, await webhooks.state(self._scripts, each.id)) for each in found]}

    async def add(self, body: WebhookBody, caller: AdminCaller) -> dict[str, Any]:
        # Whether the name leads somewhere is checked at every delivery too: it may change in between.
        await outbound_http.check(body.url, allow_private=self._context.settings.allow_private_urls)
        if await self._context.redis.hlen(keys.WEBHOOKS) >= MOST_WEBHOOKS:
            raise Refused("TOO_MANY_WEBHOOKS", f"There are {MOST_WEBHOOKS} webhooks already. Delete one.", 409)
        hook = await _made(self._context, body)
        await webhooks.put(self._scripts, hook)
        await audit.record(
            self._context.scripts, caller.key_id, "webhook.add", hook.id, url=hook.url, events=hook.types
        )
        return shown(hook, State(0, 0, "")) | {"secret": hook.secret}

    async def delete(self, webhook_id: str, caller: AdminCaller) -> dict[str, bool]:
        if not await webhooks.remove(self._scripts, webhook_id):
            raise _unknown(webhook_id)
        await audit.record(self._context.scripts, caller.key_id, "webhook.delete", webhook_id)
        return {"deleted": True}

    async def enable(self, webhook_id: str, caller: AdminCaller) -> dict[str, Any]:
        hook = await self._found(webhook_id)
        await webhooks.enable(self._scripts, webhook_id)
        await audit.record(self._context.scripts, caller.key_id, "webhook.enable", webhook_id)
        return shown(hook, State(0, 0, ""))

    async def deliveries(
        self, webhook_id: str, _: AdminCaller, limit: Annotated[int, Query(ge=1, le=500)] = 100
    ) -> dict[str, Any]:
        await self._found(webhook_id)
        return {"deliveries": [_told(raw) for raw in await webhooks.log(self._scripts, webhook_id, most=limit)]}

    async def replay(self, webhook_id: str, number: str, caller: AdminCaller) -> dict[str, bool]:
        await self._found(webhook_id)
        if await webhooks.delivery(self._scripts, webhook_id, number) is None:
            text = f"There is no delivery {number} in the log. GET /api/v1/webhooks/{webhook_id}/deliveries shows it."
            raise Refused("NO_SUCH_DELIVERY", text, 404)
        if (await webhooks.state(self._scripts, webhook_id)).disabled_at_ms:
            raise Refused("WEBHOOK_DISABLED", f"{webhook_id} is disabled. POST …/enable first.", 409)
        await webhooks.replay(self._scripts, webhook_id, number)
        await audit.record(self._context.scripts, caller.key_id, "webhook.replay", webhook_id, delivery=number)
        return {"queued": True}

    async def _found(self, webhook_id: str) -> Webhook:
        hook = (await webhooks.every(self._scripts)).get(webhook_id)
        if hook is None:
            raise _unknown(webhook_id)
        return hook


async def _made(context: Context, body: WebhookBody) -> Webhook:
    since = await event_stream.last_cursor(context.redis)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    name = f"wh_{secrets.token_hex(6)}"
    return Webhook(name, body.url, tuple(body.events), secret, since, await context.scripts.now_ms())


def _unknown(webhook_id: str) -> Refused:
    return Refused("NO_SUCH_WEBHOOK", f"There is no webhook {webhook_id}. GET /api/v1/webhooks lists them.", 404)


def shown(hook: Webhook, state: State) -> dict[str, Any]:
    """A webhook as people see it: without its secret."""
    return {
        "id": hook.id,
        "url": hook.url,
        "events": list(hook.types),
        "createdAt": iso(hook.created_at_ms),
        "enabled": not state.disabled_at_ms,
        "failingSince": iso(state.failing_since_ms),
        "disabledAt": iso(state.disabled_at_ms),
        "why": state.why or None,
    }


def _told(raw: dict[str, str]) -> dict[str, Any]:
    return {
        "number": raw["event"],
        "type": raw["type"],
        "status": raw["status"],
        "attempts": int(raw["attempts"]),
        "note": raw["note"],
        "queuedAt": iso(int(raw["made_at"])),
        "triedAt": iso(int(raw.get("tried_at", 0))),
        "nextAt": iso(int(float(raw.get("next_at", 0)))),
    }
