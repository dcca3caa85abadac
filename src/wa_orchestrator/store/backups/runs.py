"""The backup or restore that runs, what was asked for, and how the latest ended."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain.ids import SessionId
from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome
from wa_orchestrator.domain.stream_events import BackupEnded, BackupProgress, EventType, SessionRestored
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.leases import Holding
from wa_orchestrator.store.record_codec import decode, encode

LEASE = "backups"
LEASE_MS = 20_000
_MOST_RUNS = 20
#: What a killed server says about its run ends after this time.
_RUN_MS = 60_000
_RETRY_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Run:
    """A backup or a restore under way: so many of its sessions are done, and which one is next."""

    kind: str
    """`backup` or `restore`."""
    id: str
    phase: str
    """`sessions`, `redis`, `history`, `writing`, `copying`; `restoring`, `starting`."""
    done: int
    total: int
    session: str
    by: str
    began_at: int
    error: str = ""
    """The code of what stops a restore: it is tried again and again, and goes on once that is gone."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How a backup or restore ended; `error` is a code, empty if it succeeded."""

    kind: str
    id: str
    began_at: int
    ended_at: int
    sessions: int
    by: str = ""
    error: str = ""
    text: str = ""
    messages: Mapping[str, int] = field(default_factory=dict)
    """After a restore of everything: how many open messages of the backup got which status."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """After a restore: how it ended for each of its sessions."""

    @property
    def incomplete(self) -> dict[str, str]:
        """The sessions that did not come back as they were, and why."""
        return {each: why for each, why in self.outcomes.items() if why != RestoreOutcome.RESTORED}


class RestoreStage(StrEnum):
    """What a restore has behind it, should its server die now."""

    LOADED = "loaded"
    """Everything is in Redis; its sessions have to be started."""
    ENDED = "ended"
    """Its end is recorded and told; its files have to be removed."""


async def acquire(scripts: Scripts, owner: str) -> Holding | None:
    """Take or renew the right to back up or restore: never two at once."""
    held = await leases.acquire_lease(scripts, LEASE, owner=owner, lease_ms=LEASE_MS)
    return held if isinstance(held, Holding) else None


async def release(scripts: Scripts, holding: Holding) -> None:
    await leases.release_lease(scripts, LEASE, holding)


async def request(scripts: Scripts, by: str) -> bool:
    """Ask the leader for a backup. False if one is asked for already."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.BACKUP_REQUESTS, by)
        pipe.ltrim(keys.BACKUP_REQUESTS, 0, 0)
        length, _ = await pipe.execute()
    return int(length) == 1


async def requested(scripts: Scripts) -> str | None:
    """Return who asked for a backup that has not been made yet."""
    found: Any = await scripts.redis.lindex(keys.BACKUP_REQUESTS, 0)
    return None if found is None else str(found)


async def answer_request(scripts: Scripts) -> None:
    await scripts.redis.delete(keys.BACKUP_REQUESTS)


async def report(scripts: Scripts, run: Run) -> None:
    """Store how far a run is, and tell the pages and streams."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hset(keys.BACKUP_RUN, mapping=encode(asdict(run)))  # type: ignore[arg-type]
        pipe.pexpire(keys.BACKUP_RUN, _RUN_MS)
        payload = BackupProgress(run.kind, run.id, run.phase, run.done, run.total)
        event_stream.emit_in(pipe, EventType.BACKUP_PROGRESS, payload, at_ms=await scripts.now_ms())
        await pipe.execute()


async def keep_alive(scripts: Scripts) -> None:
    """Show a run for another while: one session of it takes long."""
    await scripts.redis.pexpire(keys.BACKUP_RUN, _RUN_MS)


async def note_trouble(scripts: Scripts, code: str) -> None:
    """Show what stops the run that is under way, until it goes on."""
    run = await current(scripts)
    if run is not None:
        await report(scripts, replace(run, error=code))


async def current(scripts: Scripts) -> Run | None:
    raw: Any = await scripts.redis.hgetall(keys.BACKUP_RUN)
    return decode(Run, raw) if raw else None


async def end(scripts: Scripts, ended: EndedRun) -> None:
    """Record how a run ended; it is shown among the latest."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        _end_in(pipe, ended)
        await pipe.execute()


async def end_restore(scripts: Scripts, restore_id: str, ended: EndedRun, kind: EventType, told: BackupEnded) -> None:
    """Record how a restore ended and tell of it, in one step: a server that dies afterwards does not do it again."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        _end_in(pipe, ended)
        event_stream.emit_in(pipe, kind, told, at_ms=ended.ended_at)
        pipe.hset(keys.RESTORE_STAGE, mapping={"id": restore_id, "stage": RestoreStage.ENDED})
        await pipe.execute()


def _end_in(pipe: Pipeline, ended: EndedRun) -> None:
    pipe.delete(keys.BACKUP_RUN)
    # An earlier version does not know the fields.
    record = {name: value for name, value in asdict(ended).items() if value or name not in ("messages", "outcomes")}
    pipe.lpush(keys.BACKUP_RUNS, json.dumps(record))
    pipe.ltrim(keys.BACKUP_RUNS, 0, _MOST_RUNS - 1)


async def tell_outcome(scripts: Scripts, backup_id: str, session_id: str, outcome: RestoreOutcome) -> None:
    """Tell what became of a session of a restore, in its own history too if it exists."""
    history = "" if outcome is RestoreOutcome.PHONE_FULL else session_id
    payload = SessionRestored(SessionId(session_id), backup_id, outcome)
    await event_stream.emit(scripts, EventType.RESTORE_SESSION, payload, history=history)


async def restore_stage(scripts: Scripts, restore_id: str) -> RestoreStage | None:
    """Return how far a restore was before its server died; None if it has to be carried out."""
    found: Any = await scripts.redis.hgetall(keys.RESTORE_STAGE)
    return RestoreStage(found["stage"]) if found.get("id") == restore_id else None


async def latest(scripts: Scripts) -> list[EndedRun]:
    """Return the latest runs that ended, the newest first."""
    raw: Any = await scripts.redis.lrange(keys.BACKUP_RUNS, 0, -1)
    return [EndedRun(**json.loads(each)) for each in raw]


async def set_uncopied(scripts: Scripts, backup_id: str) -> None:
    """Record that the newest backup has no second copy; '' if it has one."""
    if backup_id:
        await scripts.redis.set(keys.BACKUP_UNCOPIED, backup_id)
    else:
        await scripts.redis.delete(keys.BACKUP_UNCOPIED)


async def uncopied(scripts: Scripts) -> str:
    """Return the newest backup if its second copy could not be made; else ''."""
    return str(await scripts.redis.get(keys.BACKUP_UNCOPIED) or "")


async def last_day(scripts: Scripts) -> str | None:
    """Return the local day of the last scheduled backup; None in a new installation."""
    found: Any = await scripts.redis.get(keys.BACKUP_DAY)
    return None if found is None else str(found)


async def set_last_day(scripts: Scripts, day: str) -> None:
    await scripts.redis.set(keys.BACKUP_DAY, day)


async def wait_before_retry(scripts: Scripts) -> None:
    """Let a scheduled backup that failed rest for a while."""
    await scripts.redis.set(keys.BACKUP_RETRY, "1", px=_RETRY_MS)


async def may_try(scripts: Scripts) -> bool:
    return not await scripts.redis.exists(keys.BACKUP_RETRY)
