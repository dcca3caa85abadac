"""Webhooks and the durable queue of their deliveries."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypedDict
from urllib.parse import urlsplit

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain.access.permissions import Reach, reach_of
from wa_orchestrator.domain.stream_events import EventType, WebhookDisabled
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.engine.scripts import Scripts, unexpected
from wa_orchestrator.store.events import event_stream

#: Deliveries that are read in one round trip.
_SCANNED: Final = 500


@dataclass(frozen=True, slots=True, repr=False)
class Webhook:
    """A URL that gets events after the cursor `since`, signed with the secret."""

    id: str
    url: str
    types: tuple[str, ...]
    secret: str
    since: str
    created_at_ms: int
    sessions: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """If it has sessions or labels, it gets the events of those sessions only."""
    previous_secret: str = ""
    previous_until_ms: int = 0
    """The secret before a rotation signs beside the new one until this instant."""

    @property
    def reach(self) -> Reach:
        """The sessions whose events it gets."""
        return reach_of(self.sessions, self.labels)

    def secrets(self, now_ms: int) -> tuple[str, ...]:
        """Return the secrets that sign a delivery, the newest first."""
        return (self.secret, self.previous_secret) if now_ms < self.previous_until_ms else (self.secret,)

    @property
    def host(self) -> str:
        """How people know it; the rest of its URL may be secret."""
        return urlsplit(self.url).hostname or self.id


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for one webhook, as JSON."""

    webhook: str
    event: str
    type: str
    body: str


@dataclass(frozen=True, slots=True)
class WebhookHealth:
    """The health of a webhook; 0 = never."""

    failing_since_ms: int
    disabled_at_ms: int
    why: str


async def put(scripts: Scripts, webhook: Webhook) -> None:
    await scripts.redis.hset(keys.WEBHOOKS, webhook.id, _encode(webhook))


class WebhookChanges(TypedDict, total=False):
    """Fields that an operator changes, typed as in `Webhook`."""

    url: str
    types: tuple[str, ...]
    sessions: tuple[str, ...]
    labels: tuple[str, ...]


async def change(scripts: Scripts, webhook_id: str, fields: WebhookChanges) -> Webhook | None:
    """Change a webhook; None when it is gone. Its secret and its queue stay."""
    return await _rewrite(scripts, webhook_id, lambda hook: replace(hook, **fields))


async def rotate_secret(scripts: Scripts, webhook_id: str, secret: str, *, previous_until_ms: int) -> Webhook | None:
    """Give a webhook a new secret; None when it is gone. The one before signs, too, until an instant; 0: no longer."""

    def rotated(hook: Webhook) -> Webhook:
        previous = hook.secret if previous_until_ms else ""
        return replace(hook, secret=secret, previous_secret=previous, previous_until_ms=previous_until_ms)

    return await _rewrite(scripts, webhook_id, rotated)


@compare_and_set("Webhook {webhook_id}")
async def _rewrite(
    scripts: Scripts, webhook_id: str, changed: Callable[[Webhook], Webhook]
) -> Webhook | Changed | None:
    text = await scripts.redis.hget(keys.WEBHOOKS, webhook_id)
    if text is None:
        return None
    made = changed(_webhook(webhook_id, json.loads(text)))
    args = [webhook_id, str(text), _encode(made)]
    is_replaced = await scripts.whether("replace_webhook", [keys.WEBHOOKS], args, replaced=True, changed=False)
    return made if is_replaced else Changed()


def _encode(webhook: Webhook) -> str:
    record = asdict(webhook)
    del record["id"]
    return json.dumps(record)


async def every(scripts: Scripts) -> dict[str, Webhook]:
    """Return all webhooks by id, oldest first."""
    raw: Any = await scripts.redis.hgetall(keys.WEBHOOKS)
    found = [_webhook(name, json.loads(text)) for name, text in raw.items()]
    return {each.id: each for each in sorted(found, key=lambda each: (each.created_at_ms, each.id))}


def _webhook(name: str, raw: dict[str, Any]) -> Webhook:
    known = {field: raw[field] for field in Webhook.__slots__ if field in raw}
    lists = {field: tuple(value) for field, value in known.items() if isinstance(value, list)}
    return Webhook(**known | lists | {"id": name})


async def remove(scripts: Scripts, webhook_id: str) -> bool:
    """Delete a webhook and its log; its queued deliveries are dropped when due. False when there is none."""
    gone = bool(await scripts.redis.hdel(keys.WEBHOOKS, webhook_id))
    events: Any = await scripts.redis.zrange(keys.delivery_log(webhook_id), 0, -1)
    names = [keys.delivery(webhook_id, event) for event in events]
    await scripts.redis.delete(keys.delivery_log(webhook_id), keys.webhook_state(webhook_id), *names)
    return gone


async def state(scripts: Scripts, webhook_id: str) -> WebhookHealth:
    raw: Any = await scripts.redis.hgetall(keys.webhook_state(webhook_id))
    return WebhookHealth(int(raw.get("failing_since", 0)), int(raw.get("disabled_at", 0)), raw.get("why", ""))


async def cursor(scripts: Scripts) -> str:
    """Return the cursor up to which events are in the queues, '' when there is none yet."""
    return str(await scripts.redis.get(keys.WEBHOOK_CURSOR) or "")


async def has_deliveries(scripts: Scripts) -> bool:
    return bool(await scripts.redis.exists(keys.WEBHOOK_DUE))


async def count_deliveries(scripts: Scripts, webhook_id: str) -> int:
    """Return how many deliveries the log of a webhook holds, waiting ones among them."""
    return int(await scripts.redis.zcard(keys.delivery_log(webhook_id)))


async def disable(scripts: Scripts, webhook_id: str, why: str) -> None:
    """Stop delivering to a webhook, and emit the event."""
    now_ms = await scripts.now_ms()
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hset(keys.webhook_state(webhook_id), mapping={"disabled_at": now_ms, "why": why})
        event_stream.emit_in(pipe, EventType.WEBHOOK_DISABLED, WebhookDisabled(webhook_id, why), at_ms=now_ms)
        await pipe.execute()


async def enable(scripts: Scripts, webhook_id: str) -> None:
    await scripts.redis.delete(keys.webhook_state(webhook_id))


async def fan_out(scripts: Scripts, *, after: str, until: str, deliveries: Sequence[Delivery]) -> bool:
    """Queue the deliveries of the events from cursor to cursor; False when another process has done it."""
    names = [keys.WEBHOOK_CURSOR, keys.WEBHOOK_DUE]
    args: list[str | int | float] = [after, until]
    for each in deliveries:
        names += [keys.delivery(each.webhook, each.event), keys.delivery_log(each.webhook)]
        args += [each.webhook, each.event, each.type, each.body]
    return await scripts.whether("queue_deliveries", names, args, made=True, moved=False)


async def settle(
    scripts: Scripts, member: str, mark: str, *, outcome: str, next_ms: int, note: str, disable_ms: int
) -> str:
    """Record the outcome of an attempt; returns `settled`, `disabled` (the webhook, just now) or `taken_over`."""
    webhook_id, _, event = member.partition("/")
    names = [keys.WEBHOOK_DUE, keys.delivery(webhook_id, event), keys.webhook_state(webhook_id), keys.EVENTS]
    args: list[str | int | float] = [webhook_id, event, mark, outcome, next_ms, note, disable_ms]
    reply = await scripts.run("settle_delivery", names, args)
    if reply[0] not in ("settled", "disabled", "taken_over"):
        raise unexpected("settle_delivery", reply)
    return str(reply[0])


async def delivery(scripts: Scripts, webhook_id: str, event: str) -> dict[str, str] | None:
    raw: Any = await scripts.redis.hgetall(keys.delivery(webhook_id, event))
    return raw or None


async def log(scripts: Scripts, webhook_id: str, *, most: int) -> list[dict[str, str]]:
    """Return the newest deliveries of a webhook, newest first."""
    events: Any = await scripts.redis.zrange(keys.delivery_log(webhook_id), 0, most - 1, desc=True)
    found = await scripts.each(Pipeline.hgetall, [keys.delivery(webhook_id, event) for event in events])
    return [raw for raw in found if raw]


async def replay(scripts: Scripts, webhook_id: str, event: str) -> None:
    """Deliver an event of the log again now."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hset(keys.delivery(webhook_id, event), mapping={"status": "waiting", "attempts": 0, "note": "REPLAYED"})
        pipe.zadd(keys.WEBHOOK_DUE, {f"{webhook_id}/{event}": 0})
        await pipe.execute()


async def trim(scripts: Scripts, webhook_id: str, *, keep: int) -> None:
    """Delete the oldest finished deliveries, so that about `keep` remain."""
    oldest: Any = await scripts.redis.zrange(keys.delivery_log(webhook_id), 0, -keep - 1)
    names = [keys.delivery(webhook_id, event) for event in oldest]
    statuses = await scripts.each(lambda pipe, key: pipe.hget(key, "status"), names)
    over = [event for event, status in zip(oldest, statuses, strict=True) if status != "waiting"]
    if over:
        await scripts.redis.zrem(keys.delivery_log(webhook_id), *over)
        await scripts.redis.delete(*(keys.delivery(webhook_id, event) for event in over))


async def erase_deliveries_until(scripts: Scripts, until_ms: int) -> int:
    """Erase deliveries of events up to an instant, whatever became of them: they contain texts. Return how many."""
    erased = 0
    for webhook_id in await every(scripts):
        # By when they were queued, which may be later than the event, so it is the event that is compared.
        events: Any = await scripts.redis.zrange(keys.delivery_log(webhook_id), 0, _SCANNED - 1)
        old = [event for event in events if event_stream.cursor_order(event)[0] <= until_ms]
        erased += await _erase(scripts, webhook_id, old)
    return erased


async def erase_deliveries(scripts: Scripts, phone: str, lid: str) -> int:
    """Erase deliveries that name a person. Return how many."""
    erased = 0
    for webhook_id in await every(scripts):
        events: Any = await scripts.redis.zrange(keys.delivery_log(webhook_id), 0, -1)
        for first in range(0, len(events), _SCANNED):
            some = events[first : first + _SCANNED]
            names = [keys.delivery(webhook_id, event) for event in some]
            bodies = await scripts.each(lambda pipe, key: pipe.hget(key, "body"), names)
            theirs = [event for event, body in zip(some, bodies, strict=True) if body and _names(body, phone, lid)]
            erased += await _erase(scripts, webhook_id, theirs)
    return erased


def _names(body: str, phone: str, lid: str) -> bool:
    """Whether a delivery is about a person."""
    data = json.loads(body).get("data") or {}
    contact = data.get("contact") or {}
    if phone in (data.get("to"), contact.get("phone")):
        return True
    return bool(lid) and (contact.get("lid") == lid or data.get("to") == f"lid:{lid}")


async def _erase(scripts: Scripts, webhook_id: str, events: Sequence[str]) -> int:
    if events:
        async with scripts.redis.pipeline(transaction=True) as pipe:
            pipe.zrem(keys.delivery_log(webhook_id), *events)
            pipe.zrem(keys.WEBHOOK_DUE, *(f"{webhook_id}/{event}" for event in events))
            pipe.delete(*(keys.delivery(webhook_id, event) for event in events))
            await pipe.execute()
    return len(events)
