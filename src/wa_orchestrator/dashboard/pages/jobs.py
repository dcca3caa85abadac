"""Jobs page: background jobs, their latest results and next runs."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.orchestrator import job_table
from wa_orchestrator.orchestrator.sessions import version_recovery
from wa_orchestrator.store.jobs import MOST_RUNS, JobRun


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    return PageContent("jobs.html", await parts(renderer, view, query), {}, {"page": "jobs"})


async def parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    rows = await job_table.read(renderer.context.settings, renderer.context.scripts)
    macros = renderer.operations
    failed, new = sum(row.failed for row in rows), sum(row.last is None for row in rows)
    shown = [(row, beats(row.runs)) for row in rows]
    version = await version_recovery.overview(renderer.context.settings, renderer.context.scripts)
    return {
        "headline": macros.jobs_headline(view, len(rows), failed, new),
        "job-list": macros.job_list(view, shown, version),
    }


def beats(runs: Sequence[JobRun]) -> list[str]:
    """Return the states of the latest runs, the oldest first, as the strip shows them."""
    seen = ["bad" if run.error else "good" for run in reversed(runs)]
    return ["off"] * (MOST_RUNS - len(seen)) + seen
