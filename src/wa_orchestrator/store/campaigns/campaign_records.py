"""Records of campaigns: made as drafts, changed state by state, erased."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain.campaigns.campaign import CampaignState
from wa_orchestrator.domain.campaigns.recipients import Recipient
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.record_codec import decode, flat

#: How long recipients of a campaign that never came to be are kept.
_STAGED_S: Final = 3600
_CHUNK: Final = 500
#: What belongs to one campaign.
_PARTS: Final = (
    keys.campaign, keys.campaign_rows, keys.campaign_phones, keys.campaign_waiting, keys.campaign_outcomes,
    keys.campaign_counts, keys.campaign_queued, keys.campaign_open, keys.campaign_attempts, keys.campaign_answered,
    keys.campaign_stopped,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Campaign:
    """One campaign. Every field of its hash."""

    id: str
    name: str
    state: CampaignState
    why: str
    """Why it is paused: a `PauseReason`."""
    text: str
    consent: str
    """Where the recipients agreed to hear from this account, in the words of who made it."""
    sessions: tuple[str, ...]
    """The sessions that may send it; with `tags` empty: all."""
    tags: tuple[str, ...]
    with_cold: bool
    """Whether sessions that were linked lately send too."""
    total: int
    """How many recipients it has."""
    doubles: int
    opted_out_before: int
    made_by: str
    created_at: int
    changed_at: int
    started_at: int
    ended_at: int
    known_bans: tuple[str, ...]
    """Phones that were banned when somebody last let it go on."""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The campaign has the new state."""


@dataclass(frozen=True, slots=True)
class OtherState:
    """Somebody else was faster; it has this state."""

    state: CampaignState


@dataclass(frozen=True, slots=True)
class NoCampaign:
    """There is no such campaign any more."""


async def stage(scripts: Scripts, campaign_id: str, recipients: Sequence[Recipient]) -> None:
    """Store recipients for a campaign that is about to be made. They expire unless `create` follows."""
    for first in range(0, len(recipients), _CHUNK):
        some = list(enumerate(recipients[first : first + _CHUNK], first + 1))
        pipe = scripts.redis.pipeline(transaction=False)
        rows: dict[Any, Any] = {
            str(row): json.dumps([each.line, each.to, dict(each.values)], ensure_ascii=False) for row, each in some
        }
        pipe.hset(keys.campaign_rows(campaign_id), mapping=rows)
        pipe.hset(keys.campaign_phones(campaign_id), mapping={each.to: str(row) for row, each in some})
        pipe.zadd(keys.campaign_waiting(campaign_id), {str(row): row for row, _ in some})
        for key in (keys.campaign_rows, keys.campaign_phones, keys.campaign_waiting):
            pipe.expire(key(campaign_id), _STAGED_S)
        await pipe.execute()


async def create(scripts: Scripts, campaign_id: str, total: int, fields: Mapping[str, object]) -> bool:
    """Make a draft of the staged recipients; False when they have expired."""
    names = [
        keys.campaign(campaign_id), keys.CAMPAIGNS, keys.campaign_rows(campaign_id),
        keys.campaign_phones(campaign_id), keys.campaign_waiting(campaign_id),
    ]  # fmt: skip
    args: list[Argument] = [campaign_id, total, "total", total, *flat(fields)]
    return await scripts.whether("create_campaign", names, args, created=True, expired=False)


async def find(scripts: Scripts, campaign_id: str) -> Campaign | None:
    raw: Any = await scripts.redis.hgetall(keys.campaign(campaign_id))
    return decode(Campaign, raw) if raw else None


async def newest(scripts: Scripts) -> list[Campaign]:
    """Return all campaigns, the newest first."""
    ids: Any = await scripts.redis.zrevrange(keys.CAMPAIGNS, 0, -1)
    return await _read(scripts, ids)


async def names(scripts: Scripts, *, most: int) -> dict[str, str]:
    """Return how people call the newest campaigns, by id."""
    ids: Any = await scripts.redis.zrevrange(keys.CAMPAIGNS, 0, most - 1)
    found = await scripts.each(lambda pipe, key: pipe.hget(key, "name"), map(keys.campaign, ids))
    return {campaign_id: name or "" for campaign_id, name in zip(ids, found, strict=True)}


async def active(scripts: Scripts) -> list[Campaign]:
    """Return the campaigns that were started and are still watched, in the order in which they were started."""
    ids: Any = await scripts.redis.smembers(keys.CAMPAIGNS_ACTIVE)
    return sorted(await _read(scripts, ids), key=lambda each: (each.started_at, each.id))


async def _read(scripts: Scripts, ids: Iterable[str]) -> list[Campaign]:
    raws = await scripts.each(Pipeline.hgetall, map(keys.campaign, ids))
    return [decode(Campaign, raw) for raw in raws if raw]


async def change(
    scripts: Scripts, campaign: Campaign, state: CampaignState, *, why: str = "", bans: Iterable[str] = ()
) -> StateChanged | OtherState | NoCampaign:
    """Change the state of a campaign, unless it has changed since it was read."""
    is_alert = why not in ("", "OPERATOR")
    kind = EventType.CAMPAIGN_PAUSED_ITSELF if is_alert else EventType.CAMPAIGN_CHANGED
    names = [keys.campaign(campaign.id), keys.CAMPAIGNS_ACTIVE, keys.EVENTS]
    args: list[Argument] = [campaign.id, campaign.state, state, why, json.dumps(sorted(bans)), kind]
    return await scripts.ask(
        "change_campaign", names, args, changed=StateChanged, differs=OtherState, unknown=NoCampaign
    )


async def stop_watching(scripts: Scripts, campaign_id: str) -> None:
    await scripts.redis.srem(keys.CAMPAIGNS_ACTIVE, campaign_id)


async def remove(scripts: Scripts, campaign_id: str) -> None:
    """Erase a campaign and its recipients."""
    pipe = scripts.redis.pipeline(transaction=True)
    pipe.zrem(keys.CAMPAIGNS, campaign_id)
    pipe.srem(keys.CAMPAIGNS_ACTIVE, campaign_id)
    pipe.delete(*(key(campaign_id) for key in _PARTS))
    await pipe.execute()
