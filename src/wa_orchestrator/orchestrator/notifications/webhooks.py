"""Tells the operator's own systems what happened: from the stream into durable queues, from there over HTTP."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import EventType, WebhookDisabled
from wa_orchestrator.loop import Loop
from wa_orchestrator.orchestrator.api import event_views
from wa_orchestrator.orchestrator.notifications.webhook_post import post
from wa_orchestrator.store import event_stream, keys, webhooks
from wa_orchestrator.store.records import Entry
from wa_orchestrator.store.webhooks import Delivery, Webhook

#: Seconds until the next attempt after each failed one: three days in all.
RETRIES_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
DISABLE_AFTER_S = 3 * 86_400
KEEP = 1_000
#: More than this waiting for one webhook means that nobody will ever catch up.
MOST_WAITING = 50_000
_AWAY_MS = 60_000
_EVENTS = 200
_AT_ONCE = 50
_AT_ONCE_EACH = 5
_IDLE_S = 0.5

log = structlog.get_logger(__name__)
_dice: Callable[[], float] = random.SystemRandom().random


class WebhookDeliverer:
    """Reads the stream and delivers. Any number may run: cursor and queue are in Redis, and nothing is only here."""

    def __init__(self, context: Context) -> None:
        """Deliver from this context's store."""
        self._context = context
        self._scripts = context.scripts
        self._settings = context.settings
        self._under_way: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            await Loop("webhooks", self).run()
        finally:
            for task in self._under_way:
                task.cancel()

    async def step(self) -> float:
        """Queue what is new and begin what is due. Gives the seconds until there may be more."""
        hooks = await webhooks.every(self._scripts)
        if not hooks and not await self._context.redis.exists(keys.WEBHOOK_DUE):
            return _IDLE_S
        made = await self._fan_out(hooks)
        begun = await self._begin(hooks)
        return 0.0 if made or begun else _IDLE_S

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.gather(*self._under_way)

    # -- from the stream into the queues --

    async def _fan_out(self, hooks: dict[str, Webhook]) -> bool:
        cursor = str(await self._context.redis.get(keys.WEBHOOK_CURSOR) or "")
        wanted = {name: hook for name, hook in hooks.items() if await self._listens(name)}
        oldest = min((hook.since for hook in wanted.values()), key=event_stream.cursor_order, default=None)
        if oldest is None:
            return False
        after = max(cursor or "0", oldest, key=event_stream.cursor_order)
        entries = await event_stream.read(self._scripts, after=after, most=_EVENTS)
        if not entries:
            return False
        deliveries = await self._written(list(wanted.values()), entries)
        await webhooks.fan_out(self._scripts, after=cursor, until=entries[-1].cursor, deliveries=deliveries)
        for name in {each.webhook for each in deliveries}:
            await webhooks.trim(self._scripts, name, keep=KEEP)
        return True

    async def _listens(self, webhook_id: str) -> bool:
        """Whether a webhook gets new events. One whose queue has no end is disabled: the queue must have one."""
        if (await webhooks.state(self._scripts, webhook_id)).disabled_at_ms:
            return False
        if await self._context.redis.zcard(keys.delivery_log(webhook_id)) > MOST_WAITING:
            await self._disable(webhook_id, "QUEUE_FULL")
            return False
        return True

    async def _disable(self, webhook_id: str, why: str) -> None:
        now_ms = await self._scripts.now_ms()
        async with self._context.redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.webhook_state(webhook_id), mapping={"disabled_at": now_ms, "why": why})
            event_stream.emit_in(pipe, EventType.WEBHOOK_DISABLED, WebhookDisabled(webhook_id, why), at_ms=now_ms)
            await pipe.execute()

    async def _written(self, hooks: Sequence[Webhook], entries: Sequence[Entry]) -> list[Delivery]:
        wanted = [entry for entry in entries if any(_wants(hook, entry) for hook in hooks)]
        told = await event_views.views(self._scripts, wanted)
        return [
            Delivery(hook.id, entry.cursor, entry.fields["type"], json.dumps(event, ensure_ascii=False))
            for entry, event in zip(wanted, told, strict=True)
            for hook in hooks
            if _wants(hook, entry)
        ]

    # -- from the queues over HTTP --

    async def _begin(self, hooks: dict[str, Webhook]) -> int:
        room = _AT_ONCE - len(self._under_way)
        if room <= 0:
            return 0
        taken = await webhooks.take(self._scripts, most=room, away_ms=_AWAY_MS)
        now_ms = await self._scripts.now_ms()
        begun = 0
        for member in taken.members:
            hook = hooks.get(member[0])
            if hook is None:
                await webhooks.put_off(self._scripts, member, taken.mark, next_ms=None)
            elif self._busy[hook.id] >= _AT_ONCE_EACH:  # one slow system must not keep the others waiting
                await webhooks.put_off(self._scripts, member, taken.mark, next_ms=now_ms + 250)
            else:
                self._start(hook, member, taken.mark)
                begun += 1
        return begun

    def _start(self, hook: Webhook, member: tuple[str, str], mark: str) -> None:
        self._busy[hook.id] += 1
        task = asyncio.get_running_loop().create_task(self._deliver(hook, member, mark))
        self._under_way.add(task)
        task.add_done_callback(lambda done: self._finish(hook, done))

    def _finish(self, hook: Webhook, task: "asyncio.Task[None]") -> None:
        self._busy[hook.id] -= 1
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("webhook.unsettled", webhook=hook.id, error=repr(task.exception()))

    async def _deliver(self, hook: Webhook, member: tuple[str, str], mark: str) -> None:
        raw = await webhooks.delivery(self._scripts, *member)
        if raw is None:
            await webhooks.put_off(self._scripts, member, mark, next_ms=None)
            return
        note = "DISABLED"
        disabled = (await webhooks.state(self._scripts, hook.id)).disabled_at_ms
        if not disabled:
            note = await post(self._context, hook, member[1], raw["body"])
        tried = int(raw["attempts"])
        outcome, next_ms = "failed", 0
        if note == "":
            outcome, note = "delivered", "OK"
        elif not disabled and tried < len(RETRIES_S):
            wait_ms = RETRIES_S[tried] * 1000 * (0.9 + 0.2 * _dice())
            outcome, next_ms = "waiting", await self._scripts.now_ms() + int(self._settings.scaled(wait_ms))
        settled = await webhooks.settle(
            self._scripts, member, mark, outcome=outcome, next_ms=next_ms, note=note,
            disable_ms=int(self._settings.scaled(DISABLE_AFTER_S * 1000)),
        )  # fmt: skip
        log.info("webhook.tried", webhook=hook.id, event_id=member[1], outcome=outcome, note=note)
        if settled == "disabled":
            log.error("webhook.disabled", webhook=hook.id, note=note)


def _wants(hook: Webhook, entry: Entry) -> bool:
    return event_stream.cursor_order(entry.cursor) > event_stream.cursor_order(hook.since) and event_views.is_wanted(
        hook.types, entry
    )
