"""Recipients of a campaign: those who still wait, and the message status of the others."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain.campaigns.recipients import Recipient
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts


@dataclass(frozen=True, slots=True)
class Tally:
    """Where the recipients of a campaign are. `by_status` and `waiting` sum up to all of them."""

    waiting: int
    by_status: Mapping[str, int]
    answered: int
    opted_out: int

    @property
    def written(self) -> int:
        """To how many a message has left, for all that is known."""
        return sum(self.by_status.get(status, 0) for status in (*SUCCEEDED, MessageStatus.UNKNOWN))


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """What became of one recipient; `status` is that of the message, or `opted_out`."""

    row: int
    status: str
    message_id: str
    session: str
    at_ms: int


async def tally(scripts: Scripts, campaign_id: str) -> Tally:
    pipe = scripts.redis.pipeline(transaction=True)
    pipe.zcard(keys.campaign_waiting(campaign_id))
    pipe.hgetall(keys.campaign_counts(campaign_id))
    pipe.scard(keys.campaign_answered(campaign_id))
    pipe.scard(keys.campaign_stopped(campaign_id))
    waiting, counts, answered, stopped = await pipe.execute()
    return Tally(waiting, {name: int(count) for name, count in counts.items() if int(count)}, answered, stopped)


async def waiting(scripts: Scripts, campaign_id: str, *, most: int) -> list[int]:
    """Return the first rows that are still to come."""
    rows: Any = await scripts.redis.zrange(keys.campaign_waiting(campaign_id), 0, most - 1)
    return [int(row) for row in rows]


async def recipients(scripts: Scripts, campaign_id: str, rows: Sequence[int]) -> dict[int, Recipient]:
    """Return the recipients of these rows; who was erased is missing."""
    if not rows:
        return {}
    raws: Any = await scripts.redis.hmget(keys.campaign_rows(campaign_id), [str(row) for row in rows])
    found = {row: json.loads(raw) for row, raw in zip(rows, raws, strict=True) if raw}
    return {row: Recipient(line, Phone(to), values) for row, (line, to, values) in found.items()}


async def attempts(scripts: Scripts, campaign_id: str) -> dict[int, int]:
    """Return how often the messages of rows were taken back; rows that never were are missing."""
    raw: Any = await scripts.redis.hgetall(keys.campaign_attempts(campaign_id))
    return {int(row): int(count) for row, count in raw.items()}


async def record(
    scripts: Scripts, campaign_id: str, row: int, *, status: str, message_id: str = "", session: str = ""
) -> bool:
    """Record that a row no longer waits; False when that is recorded."""
    names = [
        key(campaign_id)
        for key in (keys.campaign_waiting, keys.campaign_outcomes, keys.campaign_counts, keys.campaign_queued)
    ]
    args: list[Argument] = [row, status, message_id, session]
    return await scripts.whether("record_campaign_row", names, args, recorded=True, already=False)


async def settle(scripts: Scripts, campaign_id: str, outcome: RowOutcome, place: str) -> bool:
    """Record the status of a row's message; `place` is where the row is then: `queued`, `open` or `final`."""
    names = [
        key(campaign_id)
        for key in (keys.campaign_outcomes, keys.campaign_counts, keys.campaign_queued, keys.campaign_open)
    ]
    args: list[Argument] = [outcome.row, outcome.message_id, outcome.status, outcome.session, outcome.at_ms, place]
    return await scripts.whether("settle_campaign_row", names, args, settled=True, same=False, other=False)


async def take_back(scripts: Scripts, campaign_id: str, row: int, message_id: str) -> bool:
    """Let a row wait again whose message was cancelled; False when its message is another one by now."""
    parts = (
        keys.campaign_waiting, keys.campaign_outcomes, keys.campaign_counts, keys.campaign_queued,
        keys.campaign_attempts,
    )  # fmt: skip
    names = [key(campaign_id) for key in parts]
    return await scripts.whether("return_campaign_row", names, [row, message_id], returned=True, other=False)


async def queued(scripts: Scripts, campaign_id: str) -> list[int]:
    """Return the rows whose message waits or is being sent."""
    return sorted(map(int, await scripts.redis.smembers(keys.campaign_queued(campaign_id))))


async def open_rows(scripts: Scripts, campaign_id: str, *, most: int) -> list[int]:
    """Return some rows, at random, whose message has left and may still be delivered, read or retried."""
    found: Any = await scripts.redis.srandmember(keys.campaign_open(campaign_id), most)
    return sorted(map(int, found))


async def outcomes(scripts: Scripts, campaign_id: str, rows: Sequence[int]) -> dict[int, RowOutcome]:
    """Return what became of these rows; those that still wait are missing."""
    if not rows:
        return {}
    raws: Any = await scripts.redis.hmget(keys.campaign_outcomes(campaign_id), [str(row) for row in rows])
    parts = {row: raw.split(" ") for row, raw in zip(rows, raws, strict=True) if raw}
    return {
        row: RowOutcome(row, status, message, session, int(float(at)))
        for row, (status, message, session, at) in parts.items()
    }


async def erase_recipient(scripts: Scripts, phone: str) -> None:
    """Erase a person from all campaigns; the counts stay, and who still waits is not written to."""
    ids: Any = await scripts.redis.zrange(keys.CAMPAIGNS, 0, -1)
    for campaign_id in map(str, ids):
        row: Any = await scripts.redis.hget(keys.campaign_phones(campaign_id), phone)
        if row is not None:
            await record(scripts, campaign_id, int(row), status="cancelled")
            pipe = scripts.redis.pipeline(transaction=True)
            pipe.hdel(keys.campaign_rows(campaign_id), row)
            pipe.hdel(keys.campaign_phones(campaign_id), phone)
            await pipe.execute()
