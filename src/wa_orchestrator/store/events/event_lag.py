"""How far behind the consumers of events and the dispatchers are."""

from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream

_CURSORS: Final = {
    "webhooks": keys.WEBHOOK_CURSOR,
    "alerts": keys.ALERT_CURSOR,
    "dashboard": keys.DASHBOARD_CURSOR,
}

#: Queued messages that are examined to find the oldest that waits.
_MOST_LOOKED_AT: Final = 100


async def of_consumers(scripts: Scripts) -> dict[str, float]:
    """Return by how many seconds of events each consumer is behind; one that never consumed is left out."""
    cursors = dict(_CURSORS)
    if not await scripts.redis.hlen(keys.WEBHOOKS):  # nobody moves the cursor of deliveries that nobody wants
        del cursors["webhooks"]
    newest_ms = event_stream.cursor_order(await event_stream.last_cursor(scripts))[0]
    found: Any = await scripts.redis.mget(list(cursors.values()))
    return {
        name: max(0, newest_ms - event_stream.cursor_order(cursor)[0]) / 1000
        for name, cursor in zip(cursors, found, strict=True)
        if cursor
    }


async def overdue_phone_s(scripts: Scripts) -> float:
    """Return for how many seconds the most overdue phone has been waiting for a dispatcher."""
    first: Any = await scripts.redis.zrange(keys.DUE, 0, 0, withscores=True)
    return max(0.0, (await scripts.now_ms() - first[0][1]) / 1000) if first else 0.0


async def oldest_waiting_s(scripts: Scripts) -> float:
    """Return for how many seconds the oldest queued message has waited; one whose own time has not come does not count.

    Only the oldest are examined: behind more scheduled messages than that, an older one is not found.
    """
    raw: Any = await scripts.redis.zrangebylex(keys.STATUSES, "[:queued ", "(:queued!", start=0, num=_MOST_LOOKED_AT)
    entries = [str(each).split(" ") for each in raw]
    due = await scripts.each(lambda pipe, name: pipe.hget(name, "due_at"), (keys.message(each[2]) for each in entries))
    now_ms = await scripts.now_ms()
    waiting = [int(each[1]) for each, at in zip(entries, due, strict=True) if int(at or 0) <= now_ms]
    return max(0.0, (now_ms - waiting[0]) / 1000) if waiting else 0.0
