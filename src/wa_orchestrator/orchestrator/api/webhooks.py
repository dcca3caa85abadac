"""Routes of webhooks: add, list, change, delete, enable, delivery log, replay."""

import base64
import secrets
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from wa_orchestrator import outbound_http
from wa_orchestrator.context import Context
from wa_orchestrator.domain import stream_events
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.events import event_stream, webhooks
from wa_orchestrator.store.events.webhooks import Webhook, WebhookChanges, WebhookHealth
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.ids import EventNumber, WebhookId
from wa_orchestrator.web.models import (
    LabelNames,
    OptionalText,
    OptionalTimestamp,
    RequestModel,
    ResponseModel,
    SessionNames,
)
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

MAX_WEBHOOKS = 50
#: How long the secret before a rotation signs, too.
KEEP_DAYS = 7
_DAY_MS = 86_400_000


def _known(pattern: str) -> str:
    if not stream_events.is_pattern(pattern):
        raise ValueError("selects no type of event; docs/events.md lists them")
    return pattern


Pattern = Annotated[str, AfterValidator(_known), Field(examples=["message.*"])]


class WebhookBody(RequestModel):
    """A webhook to add."""

    url: Annotated[str, Field(min_length=1, max_length=2048, examples=["https://crm.example.com/whatsapp"])]
    events: Annotated[list[Pattern], Field(min_length=1, max_length=50)] = Field(
        ["*"], description="Types of events: `*`, `message.*`, `session.connected`."
    )
    sessions: SessionNames = Field([], description="Only events of these sessions.")
    labels: LabelNames = Field([], description="Only events of sessions with one of these labels or tags.")


class WebhookPatch(RequestModel):
    """What to change about a webhook. What is missing stays; its secret and what waits for it stay, too."""

    url: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    events: Annotated[list[Pattern], Field(min_length=1, max_length=50)] | None = None
    sessions: SessionNames | None = Field(None, description="All of them; an empty list lifts the limit.")
    labels: LabelNames | None = Field(None, description="All of them; an empty list lifts the limit.")


class WebhookView(ResponseModel):
    """A webhook, without its secret."""

    id: str = Field(examples=["wh_1a2b3c4d5e6f"])
    url: str
    events: list[str] = Field(description="The types that it gets.", examples=[["message.*", "session.connected"]])
    sessions: list[str] = Field(description="Only events of these sessions, if there are any.")
    labels: list[str] = Field(description="Only events of sessions with one of these labels, if there are any.")
    created_at: OptionalTimestamp
    enabled: bool
    failing_since: OptionalTimestamp
    disabled_at: OptionalTimestamp = Field(description="When the server gave up on it.")
    why: OptionalText = Field(description="The last error.")
    previous_secret_until: OptionalTimestamp = Field(
        description="Until then the secret before the last rotation signs, too."
    )


class CreatedWebhook(WebhookView):
    """The new webhook."""

    secret: str = Field(description="Signs every delivery (Standard Webhooks). It cannot be shown again.")


class RotationBody(RequestModel):
    """How long both secrets are used."""

    keep_days: int = Field(KEEP_DAYS, ge=0, le=30, description="Days for which the old secret signs too. 0: none.")


class WebhooksResponse(ResponseModel):
    """All webhooks."""

    webhooks: list[WebhookView]


class DeletedWebhook(ResponseModel):
    """Nothing more is delivered."""

    deleted: Literal[True] = True


class DeliveryView(ResponseModel):
    """An event on its way to a webhook."""

    number: str = Field(description="The id of the event.")
    type: str
    status: str
    attempts: int
    note: str = Field(description="What the webhook answered, or the error.")
    queued_at: OptionalTimestamp
    tried_at: OptionalTimestamp
    next_at: OptionalTimestamp = Field(description="When it is tried again.")


class DeliveriesResponse(ResponseModel):
    """The delivery log, the newest first."""

    deliveries: list[DeliveryView]


class QueuedReplay(ResponseModel):
    """The event will be delivered once more."""

    queued: Literal[True] = True


class WebhookRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/webhooks", "webhooks")
        one, missing = "/{webhook_id}", responses(NO_SUCH_WEBHOOK=404)
        replay = responses(NO_SUCH_WEBHOOK=404, NO_SUCH_DELIVERY=404, WEBHOOK_DISABLED=409)
        self.get("")(self.list_webhooks)
        self.post("", status_code=201, responses=responses(TOO_MANY_WEBHOOKS=409, URL_REFUSED=422))(self.add_webhook)
        self.patch(one, responses=responses(NO_SUCH_WEBHOOK=404, URL_REFUSED=422))(self.change_webhook)
        self.delete(one, responses=missing)(self.delete_webhook)
        self.post(f"{one}/enable", responses=missing)(self.enable_webhook)
        self.post(f"{one}/rotate-secret", responses=missing)(self.rotate_webhook_secret)
        self.get(f"{one}/deliveries", responses=missing)(self.list_deliveries)
        self.post(f"{one}/deliveries/{{number}}/replay", status_code=202, responses=replay)(self.replay_delivery)

    async def list_webhooks(self, _: AdminCaller) -> WebhooksResponse:
        """List webhooks, without their secrets."""
        found = (await webhooks.every(self._scripts)).values()
        return WebhooksResponse(webhooks=[view(each, await webhooks.state(self._scripts, each.id)) for each in found])

    async def add_webhook(self, body: WebhookBody, caller: AdminCaller) -> CreatedWebhook:
        """Add a webhook. The response is the only place that shows its secret."""
        # The address is checked at every delivery too: the name may resolve to another one by then.
        await outbound_http.check(body.url, allow_private=self._settings.allow_private_urls)
        if len(await webhooks.every(self._scripts)) >= MAX_WEBHOOKS:
            raise Refused("TOO_MANY_WEBHOOKS", f"There are {MAX_WEBHOOKS} webhooks already. Delete one.", 409)
        hook = await _new(self._context, body)
        await webhooks.put(self._scripts, hook)
        limits = {"sessions": hook.sessions, "labels": hook.labels}
        await self._audit(caller, "webhook.add", hook.id, url=hook.url, events=hook.types, **limits)
        return CreatedWebhook.of(view(hook, WebhookHealth(0, 0, "")), secret=hook.secret)

    async def change_webhook(self, webhook_id: WebhookId, body: WebhookPatch, caller: AdminCaller) -> WebhookView:
        """Change the address, the events or the sessions of a webhook."""
        if body.url is not None:
            await outbound_http.check(body.url, allow_private=self._settings.allow_private_urls)
        given = {"url": body.url, "types": body.events, "sessions": body.sessions, "labels": body.labels}
        fields = {
            name: tuple(each) if isinstance(each, list) else each for name, each in given.items() if each is not None
        }
        hook = await webhooks.change(self._scripts, webhook_id, WebhookChanges(**fields))  # type: ignore[typeddict-item]
        if hook is None:
            raise _unknown(webhook_id)
        await self._audit(caller, "webhook.change", webhook_id, **fields)
        return view(hook, await webhooks.state(self._scripts, webhook_id))

    async def delete_webhook(self, webhook_id: WebhookId, caller: AdminCaller) -> DeletedWebhook:
        """Delete a webhook and what waits for it."""
        if not await webhooks.remove(self._scripts, webhook_id):
            raise _unknown(webhook_id)
        await self._audit(caller, "webhook.delete", webhook_id)
        return DeletedWebhook()

    async def enable_webhook(self, webhook_id: WebhookId, caller: AdminCaller) -> WebhookView:
        """Deliver to a disabled webhook again."""
        hook = await self._found(webhook_id)
        await webhooks.enable(self._scripts, webhook_id)
        await self._audit(caller, "webhook.enable", webhook_id)
        return view(hook, WebhookHealth(0, 0, ""))

    async def rotate_webhook_secret(
        self, webhook_id: WebhookId, caller: AdminCaller, body: RotationBody | None = None
    ) -> CreatedWebhook:
        """Give a webhook a new secret. The response is the only place that shows it.

        Deliveries are signed with both for a while, so that the receiver can change over in that time.
        """
        keep_days = KEEP_DAYS if body is None else body.keep_days
        until_ms = await self._scripts.now_ms() + keep_days * _DAY_MS if keep_days else 0
        hook = await webhooks.rotate_secret(self._scripts, webhook_id, _new_secret(), previous_until_ms=until_ms)
        if hook is None:
            raise _unknown(webhook_id)
        await self._audit(caller, "webhook.rotate", webhook_id, keep_days=keep_days)
        return CreatedWebhook.of(view(hook, await webhooks.state(self._scripts, webhook_id)), secret=hook.secret)

    async def list_deliveries(
        self, webhook_id: WebhookId, _: AdminCaller, limit: paging.Limit = 100
    ) -> DeliveriesResponse:
        """List what was delivered, and what was not."""
        await self._found(webhook_id)
        found = await webhooks.log(self._scripts, webhook_id, most=limit)
        return DeliveriesResponse(deliveries=[_delivery(raw) for raw in found])

    async def replay_delivery(self, webhook_id: WebhookId, number: EventNumber, caller: AdminCaller) -> QueuedReplay:
        """Deliver an event once more."""
        await self._found(webhook_id)
        if await webhooks.delivery(self._scripts, webhook_id, number) is None:
            text = f"There is no delivery {number} in the log. GET /api/v1/webhooks/{webhook_id}/deliveries shows it."
            raise Refused("NO_SUCH_DELIVERY", text, 404)
        if (await webhooks.state(self._scripts, webhook_id)).disabled_at_ms:
            raise Refused("WEBHOOK_DISABLED", f"{webhook_id} is disabled. POST …/enable first.", 409)
        await webhooks.replay(self._scripts, webhook_id, number)
        await self._audit(caller, "webhook.replay", webhook_id, delivery=number)
        return QueuedReplay()

    async def _found(self, webhook_id: str) -> Webhook:
        hook = (await webhooks.every(self._scripts)).get(webhook_id)
        if hook is None:
            raise _unknown(webhook_id)
        return hook


async def _new(context: Context, body: WebhookBody) -> Webhook:
    since = await event_stream.last_cursor(context.scripts)
    name = f"wh_{secrets.token_hex(6)}"
    limits = (tuple(body.sessions), tuple(body.labels))
    return Webhook(name, body.url, tuple(body.events), _new_secret(), since, await context.scripts.now_ms(), *limits)


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _unknown(webhook_id: str) -> Refused:
    return Refused("NO_SUCH_WEBHOOK", f"There is no webhook {webhook_id}. GET /api/v1/webhooks lists them.", 404)


def view(hook: Webhook, state: WebhookHealth) -> WebhookView:
    return WebhookView.of(
        hook,
        events=hook.types,
        created_at=hook.created_at_ms,
        enabled=not state.disabled_at_ms,
        failing_since=state.failing_since_ms,
        disabled_at=state.disabled_at_ms,
        why=state.why,
        previous_secret_until=hook.previous_until_ms,
    )


def _delivery(raw: dict[str, str]) -> DeliveryView:
    queued_at, tried_at, next_at = (int(float(raw.get(name, 0))) for name in ("made_at", "tried_at", "next_at"))
    shown = {**raw, "number": raw["event"], "queued_at": queued_at, "tried_at": tried_at, "next_at": next_at}
    return DeliveryView.model_validate(shown)
