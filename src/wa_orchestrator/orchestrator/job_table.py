"""The table of background jobs, for the API and the pages: schedule, latest results, next run."""

from dataclasses import dataclass
from datetime import datetime, time
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.jobs import DAILY, SUMMARY_AT, Job, next_daily
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import jobs
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.jobs import JobRun, JobState


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as people see it."""

    job: Job
    daily_at: str
    """The local time of a daily job; empty for one that goes on all the time."""
    runs: tuple[JobRun, ...]
    next_at: int
    """0 if it is not known."""
    running: bool

    @property
    def last(self) -> JobRun | None:
        return self.runs[0] if self.runs else None

    @property
    def failed(self) -> bool:
        return self.last is not None and bool(self.last.error)


async def read(settings: Settings, scripts: Scripts) -> list[JobRow]:
    """Return all jobs: those that failed first, then by their next run."""
    found = await jobs.states(scripts)
    backup = await runs.current(scripts)
    running = bool(backup) or await runs.requested(scripts) is not None
    now = datetime.fromtimestamp(await scripts.now_ms() / 1000, tz=ZoneInfo(settings.timezone))
    rows = [_row(settings, job, state, now) for job, state in found.items() if job is not Job.BACKUP]
    ended = [each for each in await runs.latest(scripts) if each.kind == "backup"][: jobs.MOST_RUNS]
    made = tuple(JobRun(each.began_at, each.ended_at, each.error, _person(each.by)) for each in ended)
    rows.append(_row(settings, Job.BACKUP, JobState(made, asked_by="x" if running else ""), now))
    return sorted(rows, key=lambda row: (not row.failed, row.next_at or 2**60))


def _person(by: str) -> str:
    return "" if by == "schedule" else by


def _row(settings: Settings, job: Job, state: JobState, now: datetime) -> JobRow:
    at = settings.backup_time if job is Job.BACKUP else f"{SUMMARY_AT:%H:%M}"
    coming = state.next_at
    if job in DAILY:
        upcoming = next_daily(job, now, ZoneInfo(settings.timezone), time.fromisoformat(settings.backup_time))
        coming = round(upcoming.timestamp() * 1000)
    return JobRow(job, at if job in DAILY else "", state.runs, coming, bool(state.asked_by))
