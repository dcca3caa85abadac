"""Records the results of jobs, and runs jobs on request. Leader only."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.jobs import Job
from wa_orchestrator.store import jobs
from wa_orchestrator.store.jobs import JobRun

Step = Callable[[], Awaitable[float]]
_EVERY_S: Final = 1.0
#: A job that goes on all the time is recorded once in this time, and at once when it fails or recovers.
_QUIET_MS: Final = 60_000

log = structlog.get_logger(__name__)


class RecordedStep:
    """The step of a loop that goes on all the time, with a record of how it went."""

    def __init__(self, context: Context, job: Job, step: Step) -> None:
        self._scripts, self._job, self._step = context.scripts, job, step
        self._noted_at, self._error = 0, ""

    async def __call__(self) -> float:
        began_at = await self._scripts.now_ms()
        try:
            wait_s = await self._step()
        except Exception as error:
            await self._note(began_at, error=type(error).__name__)
            raise
        await self._note(began_at, next_in_ms=round(wait_s * 1000))
        return wait_s

    async def _note(self, began_at: int, *, error: str = "", next_in_ms: int = 0) -> None:
        if error == self._error and 0 <= began_at - self._noted_at < _QUIET_MS:
            return
        self._noted_at, self._error = began_at, error
        now_ms = await self._scripts.now_ms()
        await jobs.note(self._scripts, self._job, JobRun(began_at, now_ms, error), next_at=now_ms + next_in_ms)


class JobRequests:
    """Runs the jobs that were asked for by hand, one after another."""

    def __init__(self, context: Context, steps: Mapping[Job, Callable[[], Awaitable[object]]]) -> None:
        self._scripts, self._steps = context.scripts, steps

    async def step(self) -> float:
        """Run what was asked for. A job that fails is recorded so, and the others run."""
        for job, by in (await jobs.take_asked(self._scripts)).items():
            began_at, error = await self._scripts.now_ms(), ""
            log.info("job.began", job=job, by=by)
            try:
                await self._steps[job]()
            except Exception as raised:  # whatever it is, it belongs into the record
                log.error("job.failed", job=job, exc_info=raised)
                error = type(raised).__name__
            await jobs.note(self._scripts, job, JobRun(began_at, await self._scripts.now_ms(), error, by))
        return _EVERY_S
