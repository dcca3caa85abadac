"""Recipients of a campaign who answered or opted out after they got it."""

from collections.abc import Sequence
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.campaigns import campaign_rows
from wa_orchestrator.store.campaigns.campaign_rows import RowOutcome
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream


async def events_noted(scripts: Scripts, cursor: str) -> None:
    """Remember that what events up to this one say is noted. It may be noted twice, never not at all."""
    await event_stream.mark_read(scripts, keys.CAMPAIGNS_CURSOR, cursor)


async def skip_events(scripts: Scripts) -> None:
    """Begin after the newest event: no campaign waits for the earlier ones."""
    await events_noted(scripts, await event_stream.last_cursor(scripts))


async def marks(scripts: Scripts, campaign_id: str, rows: Sequence[int]) -> dict[int, tuple[bool, bool]]:
    """Return of each row whether its recipient answered, and whether they opted out since."""
    if not rows:
        return {}
    pipe = scripts.redis.pipeline(transaction=False)
    names = [str(row) for row in rows]
    pipe.smismember(keys.campaign_answered(campaign_id), names)
    pipe.smismember(keys.campaign_stopped(campaign_id), names)
    answered, stopped = await pipe.execute()
    return {row: (bool(a), bool(s)) for row, a, s in zip(rows, answered, stopped, strict=True)}


async def written_to(scripts: Scripts, campaign_id: str, phones: Sequence[str]) -> dict[str, RowOutcome]:
    """Return those of these people whom a campaign has a message for, each with their row."""
    if not phones:
        return {}
    raws: Any = await scripts.redis.hmget(keys.campaign_phones(campaign_id), phones)
    rows = {phone: int(raw) for phone, raw in zip(phones, raws, strict=True) if raw}
    found = await campaign_rows.outcomes(scripts, campaign_id, list(rows.values()))
    return {phone: found[row] for phone, row in rows.items() if row in found and found[row].message_id}


async def note(scripts: Scripts, campaign_id: str, answered: Sequence[int], stopped: Sequence[int]) -> None:
    """Mark the rows of recipients who answered, and of those who opted out."""
    pipe = scripts.redis.pipeline(transaction=False)
    for key, rows in ((keys.campaign_answered, answered), (keys.campaign_stopped, stopped)):
        if rows:
            pipe.sadd(key(campaign_id), *map(str, rows))
    await pipe.execute()
