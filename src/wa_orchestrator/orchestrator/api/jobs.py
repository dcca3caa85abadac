"""Routes of background jobs: schedule, latest results, and running one by hand."""

from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.jobs import Job
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator import job_table
from wa_orchestrator.orchestrator.job_table import JobRow
from wa_orchestrator.orchestrator.sessions import version_recovery
from wa_orchestrator.store import jobs
from wa_orchestrator.store.backups import runs
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.models import OptionalText, OptionalTimestamp, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_JobName = Annotated[str, Path(pattern=r"^[a-z_]+$", max_length=40, examples=["backup"])]


class JobRunView(ResponseModel):
    """A run that ended."""

    began_at: OptionalTimestamp
    ended_at: OptionalTimestamp
    error: OptionalText = Field(description="Null if it succeeded.")
    by: OptionalText = Field(description="Who asked for it; null if nobody did.")


class JobView(ResponseModel):
    """A job of the server."""

    name: Job
    daily_at: OptionalText = Field(description="The local time of a daily job; null for one that goes on all the time.")
    next_at: OptionalTimestamp = Field(description="When it runs next, if that is known.")
    running: bool = Field(description="It runs, or was asked for and begins at once.")
    last: JobRunView | None
    runs: list[JobRunView] = Field(description="The latest runs, the newest first.")


class ClientVersionView(ResponseModel):
    """The versions of WhatsApp Web, which the job `version` looks after."""

    newest: int | None = Field(description="The newest revision that a login was accepted with; new workers use it.")
    accepted_at: OptionalTimestamp = Field(description="The last login that WhatsApp accepted.")
    refused: int = Field(description="Sessions that rest because WhatsApp refused their version (405).")
    next_trial_at: OptionalTimestamp = Field(description="When one of them tries for the others; null if none rests.")
    expires_at: OptionalTimestamp = Field(description="From when on WhatsApp said it refuses this version.")


class JobsResponse(ResponseModel):
    """All jobs: those that failed first, then by their next run."""

    jobs: list[JobView]
    client_version: ClientVersionView


class JobRequested(ResponseModel):
    """The job begins within seconds; `GET /api/v1/jobs` tells how it went."""

    requested: Literal[True] = True


class JobRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/jobs", "jobs")
        self.get("")(self.list_jobs)
        self.post("/{name}/run", status_code=202, responses=responses(NO_SUCH_JOB=404))(self.run_job)

    async def list_jobs(self, _caller: ReadCaller) -> JobsResponse:
        """List jobs, how they went, and when they run next."""
        version = await version_recovery.overview(self._settings, self._scripts)
        return JobsResponse(
            jobs=[_view(row) for row in await job_table.read(self._settings, self._scripts)],
            client_version=ClientVersionView.of(version, newest=version.newest or None),
        )

    async def run_job(self, name: _JobName, caller: AdminCaller) -> JobRequested:
        """Run a job now. Asking twice makes one run."""
        if name not in set(Job):
            raise Refused("NO_SUCH_JOB", f"There is no job {name}. GET /api/v1/jobs lists them.", 404)
        if name == Job.BACKUP:
            await runs.request(self._scripts, caller.key_id)
        else:
            await jobs.ask(self._scripts, Job(name), caller.key_id)
        await self._audit(caller, "job.run", name)
        return JobRequested()


def _view(row: JobRow) -> JobView:
    shown = [JobRunView.of(each) for each in row.runs]
    return JobView.of(row, name=row.job, last=shown[0] if shown else None, runs=shown)
