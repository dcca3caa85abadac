"""Background jobs: their latest runs, the next one, and requests to run one by hand."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from wa_orchestrator.domain.jobs import Job
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

MOST_RUNS: Final = 12


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run that ended; `error` is empty if it succeeded, `by` if nobody asked for it."""

    began_at: int
    ended_at: int
    error: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class JobState:
    """The latest runs of a job, the newest first, and when it goes on; 0 if it has not said so."""

    runs: tuple[JobRun, ...] = ()
    next_at: int = 0
    asked_by: str = ""
    """Somebody asked for a run that has not begun."""


async def note(scripts: Scripts, job: Job, run: JobRun, *, next_at: int = 0) -> None:
    """Record a run that ended, and when the job goes on."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.lpush(keys.job_runs(job), json.dumps(asdict(run)))
        pipe.ltrim(keys.job_runs(job), 0, MOST_RUNS - 1)
        if next_at:
            pipe.hset(keys.JOBS_NEXT, job, str(next_at))
        await pipe.execute()


async def ask(scripts: Scripts, job: Job, by: str) -> None:
    """Ask the leader for a run now. Asking twice makes one."""
    await scripts.redis.hset(keys.JOBS_ASKED, job, by)


async def take_asked(scripts: Scripts) -> dict[Job, str]:
    """Return who asked for which job, and forget it: a run that kills the server is not repeated for ever."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hgetall(keys.JOBS_ASKED)
        pipe.delete(keys.JOBS_ASKED)
        asked, _ = await pipe.execute()
    return {Job(name): by for name, by in asked.items() if name in set(Job)}


async def states(scripts: Scripts) -> dict[Job, JobState]:
    """Return every job."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hgetall(keys.JOBS_NEXT)
        pipe.hgetall(keys.JOBS_ASKED)
        for job in Job:
            pipe.lrange(keys.job_runs(job), 0, -1)
        coming, asked, *runs = await pipe.execute()
    found: dict[Job, Any] = dict(zip(Job, runs, strict=True))
    return {
        job: JobState(
            tuple(JobRun(**json.loads(each)) for each in found[job]), int(coming.get(job, 0)), asked.get(job, "")
        )
        for job in Job
    }
