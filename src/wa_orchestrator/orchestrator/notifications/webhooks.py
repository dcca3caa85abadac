"""Webhook delivery: from the stream into durable queues, from there over HTTP with retries."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import Everything
from wa_orchestrator.loop import Loop
from wa_orchestrator.messages import event_history
from wa_orchestrator.orchestrator.api.events import views as event_views
from wa_orchestrator.orchestrator.api.events.views import Reaches
from wa_orchestrator.orchestrator.notifications.webhook_post import post
from wa_orchestrator.store import due_items
from wa_orchestrator.store.due_items import Due
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.events.event_stream import cursor_order
from wa_orchestrator.store.events.webhooks import Delivery, Webhook
from wa_orchestrator.store.records import Entry

#: Seconds until the next attempt after each failed one: three days in all.
RETRIES_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
DISABLE_AFTER_S = 3 * 86_400
#: Deliveries that are kept in a webhook's log.
KEPT = 1_000
#: A webhook with more deliveries than this will never catch up.
MAX_WAITING = 50_000
#: A delivery whose process died is due again after this time.
_TAKEN_MS = 60_000
_EVENTS_PER_STEP = 200
_MAX_CONCURRENT = 50
_MAX_CONCURRENT_EACH = 5
_BUSY_MS = 250
_IDLE_S = 0.5

log = structlog.get_logger(__name__)
_dice: Callable[[], float] = random.SystemRandom().random


class WebhookDeliverer:
    """Reads the stream and delivers. Any number may run: cursor and queues are in Redis."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts
        self._settings = context.settings
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()

    async def run(self) -> None:
        try:
            await Loop("webhooks", self.step).run()
        finally:
            for task in self._tasks:
                task.cancel()

    async def step(self) -> float:
        """Queue new events and start the deliveries that are due; returns the seconds to wait."""
        hooks = await webhooks.every(self._scripts)
        if not hooks and not await webhooks.has_deliveries(self._scripts):
            return _IDLE_S
        queued = await self._fan_out(hooks)
        started = await self._start_due(hooks)
        return 0.0 if queued or started else _IDLE_S

    async def idle(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)

    # -- from the stream into the queues --

    async def _fan_out(self, hooks: dict[str, Webhook]) -> bool:
        cursor = await webhooks.cursor(self._scripts)
        enabled = [hook for hook in hooks.values() if await self._is_enabled(hook.id)]
        if not enabled:
            return False
        oldest = min((hook.since for hook in enabled), key=cursor_order)
        after = max(cursor or "0", oldest, key=cursor_order)
        entries = await event_history.read(self._scripts, self._context.archive, after=after, most=_EVENTS_PER_STEP)
        if not entries:
            return False
        deliveries = await self._deliveries(enabled, entries)
        await webhooks.fan_out(self._scripts, after=cursor, until=entries[-1].cursor, deliveries=deliveries)
        for name in {each.webhook for each in deliveries}:
            await webhooks.trim(self._scripts, name, keep=KEPT)
        return True

    async def _is_enabled(self, webhook_id: str) -> bool:
        """Whether a webhook gets new events. One whose queue grows without end is disabled here."""
        if (await webhooks.state(self._scripts, webhook_id)).disabled_at_ms:
            return False
        if await webhooks.count_deliveries(self._scripts, webhook_id) > MAX_WAITING:
            await webhooks.disable(self._scripts, webhook_id, "QUEUE_FULL")
            return False
        return True

    async def _deliveries(self, hooks: Sequence[Webhook], entries: Sequence[Entry]) -> list[Delivery]:
        labels = self._context.session_labels
        reaches = {hook.id: await event_views.reaches_of(labels, hook.reach) for hook in hooks}
        wanted = [entry for entry in entries if any(_wants(hook, entry, reaches[hook.id]) for hook in hooks)]
        views = await event_views.views(self._scripts, self._context.archive, wanted)
        return [
            Delivery(hook.id, entry.cursor, entry.fields["type"], _body(hook, view))
            for entry, view in zip(wanted, views, strict=True)
            for hook in hooks
            if _wants(hook, entry, reaches[hook.id])
        ]

    # -- from the queues over HTTP --

    async def _start_due(self, hooks: dict[str, Webhook]) -> int:
        free = _MAX_CONCURRENT - len(self._tasks)
        if free <= 0:
            return 0
        taken = await due_items.take(self._scripts, Due.DELIVERIES, most=free, away_ms=_TAKEN_MS)
        now_ms = await self._scripts.now_ms()
        started = 0
        for member in taken.items:
            hook = hooks.get(member.partition("/")[0])
            if hook is None:
                await due_items.settle(self._scripts, Due.DELIVERIES, member, taken.mark, next_ms=None)
            elif self._busy[hook.id] >= _MAX_CONCURRENT_EACH:  # a slow webhook must not delay the others
                await due_items.settle(self._scripts, Due.DELIVERIES, member, taken.mark, next_ms=now_ms + _BUSY_MS)
            else:
                self._start(hook, member, taken.mark)
                started += 1
        return started

    def _start(self, hook: Webhook, member: str, mark: str) -> None:
        self._busy[hook.id] += 1
        task = asyncio.get_running_loop().create_task(self._deliver(hook, member, mark))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(hook, done))

    def _finish(self, hook: Webhook, task: "asyncio.Task[None]") -> None:
        self._busy[hook.id] -= 1
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("webhook.result_not_recorded", webhook=hook.id, error=repr(task.exception()))

    async def _deliver(self, hook: Webhook, member: str, mark: str) -> None:
        event = member.partition("/")[2]
        raw = await webhooks.delivery(self._scripts, hook.id, event)
        if raw is None:
            await due_items.settle(self._scripts, Due.DELIVERIES, member, mark, next_ms=None)
            return
        disabled = (await webhooks.state(self._scripts, hook.id)).disabled_at_ms
        error = "DISABLED" if disabled else await self._post(hook, event, raw["body"])
        attempts = int(raw["attempts"])
        outcome, next_ms = "failed", 0
        if not error:
            outcome = "delivered"
        elif not disabled and attempts < len(RETRIES_S):
            wait_ms = RETRIES_S[attempts] * 1000 * (0.9 + 0.2 * _dice())
            outcome, next_ms = "waiting", await self._scripts.now_ms() + int(self._settings.scaled(wait_ms))
        note, disable_ms = error or "OK", int(self._settings.scaled(DISABLE_AFTER_S * 1000))
        settled = await webhooks.settle(
            self._scripts, member, mark, outcome=outcome, next_ms=next_ms, note=note, disable_ms=disable_ms
        )
        log.info("webhook.attempted", webhook=hook.id, event_id=event, outcome=outcome, note=note)
        if settled == "disabled":
            log.error("webhook.disabled", webhook=hook.id, note=note)

    async def _post(self, hook: Webhook, event: str, body: str) -> str:
        begins = time.perf_counter()
        error = await post(self._context, hook, event, body)
        outcome = "failed" if error else "delivered"
        self._context.instruments.webhook_delivery.labels(outcome).observe(time.perf_counter() - begins)
        return error


def _wants(hook: Webhook, entry: Entry, reaches: Reaches) -> bool:
    is_new = cursor_order(entry.cursor) > cursor_order(hook.since)
    return is_new and event_views.is_wanted(hook.types, entry) and reaches(entry)


def _body(hook: Webhook, view: dict[str, Any]) -> str:
    shown = view if isinstance(hook.reach, Everything) else event_views.restricted(view)
    return json.dumps(shown, ensure_ascii=False)
