"""`wa-orchestrator jobs …`: what the server does by itself, and a run by hand."""

from typing import Annotated, Any

import typer

from wa_orchestrator.cli import tables
from wa_orchestrator.cli.command import Invocation, command, group

app = group("What the server does by itself: list, run.")
COLUMNS = {"job": "name", "when": "when", "last run": "last", "outcome": "outcome", "next run": "nextAt"}
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name; `jobs` lists them.")]


def _row(job: dict[str, Any]) -> dict[str, Any]:
    last = job["last"] or {}
    outcome = "running" if job["running"] else (last.get("error") or "ok") if last else "never ran"
    when = f"daily at {job['dailyAt']}" if job["dailyAt"] else "all the time"
    return job | {"when": when, "last": last.get("beganAt"), "outcome": outcome}


@command(app, "list")
def listed(run: Invocation) -> None:
    """List jobs: those that failed first."""
    found = run.client.jobs()
    run.output(found, lambda: tables.table(COLUMNS, [_row(each) for each in found["jobs"]], empty="There are no jobs."))


@command(app, "run")
def run_now(run: Invocation, name: JobName) -> None:
    """Run a job now."""
    asked = run.client.run_job(name)
    run.output(asked, lambda: tables.line(f"{name} begins now. Look at it: wa-orchestrator jobs"))
