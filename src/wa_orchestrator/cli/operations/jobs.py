"""`wa-orchestrator jobs …`: the server's background jobs, and running one by hand."""

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import Invocation, command, group

app = group("Background jobs of the server: list, run.")
COLUMNS = {"job": "name", "when": "when", "last run": "lastAt", "outcome": "outcome", "next run": "nextAt"}
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name; `jobs` lists them.")]


def _row(job: dict[str, Any]) -> dict[str, Any]:
    last = job["last"] or {}
    outcome = "running" if job["running"] else (last.get("error") or "ok") if last else "never ran"
    when = f"daily at {job['dailyAt']}" if job["dailyAt"] else "all the time"
    return job | {"when": when, "lastAt": last.get("beganAt"), "outcome": outcome}


@command(app, "list")
def listed(run: Invocation) -> None:
    """List jobs: those that failed first."""
    found = run.client.jobs()

    def show_all() -> None:
        tables.table(COLUMNS, [_row(each) for each in found["jobs"]], empty="There are no jobs.")
        tables.line(_version_line(found["clientVersion"]))

    run.output(found, show_all)


def _version_line(version: dict[str, Any]) -> str:
    newest = version["newest"]
    said = f"Newest WhatsApp version that worked: {newest}." if newest else "No session has logged in yet."
    if version["refused"]:
        said += f" Refused sessions: {version['refused']}; next try {tables.when(version['nextTrialAt'])}."
    return said + (f" WhatsApp refuses it from {tables.when(version['expiresAt'])} on." if version["expiresAt"] else "")


@command(app, "run")
def run_now(run: Invocation, name: JobName) -> None:
    """Run a job now."""
    run.say(run.client.run_job(name), f"{name} starts now. To check: wa-orchestrator jobs")
