"""Jobs: what runs when, how it went, and a run by hand."""

import json
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from tests.orchestrator.fakes import FakeCheck
from wa_orchestrator.context import Context
from wa_orchestrator.domain.jobs import Job
from wa_orchestrator.domain.sessions.version_recovery import RETRY_AFTER_MS
from wa_orchestrator.orchestrator.job_runs import JobRequests, RecordedStep
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import jobs
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.backups.runs import EndedRun
from wa_orchestrator.store.sessions import client_version
from wa_orchestrator.timestamps import iso


async def test_every_job_is_listed_with_its_time_and_those_that_failed_come_first(
    api: httpx.AsyncClient, context: Context
) -> None:
    async def fails() -> float:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        await RecordedStep(context, Job.TRASH, fails)()
    await runs.end(context.scripts, EndedRun("backup", "backup_2026-01-31", 5000, 6000, 3, "schedule"))
    listed = (await api.get("/api/v1/jobs")).json()["jobs"]
    assert {each["name"] for each in listed} == set(Job)
    assert (listed[0]["name"], listed[0]["last"]["error"]) == ("trash", "OSError")
    backup = next(each for each in listed if each["name"] == "backup")
    assert (backup["dailyAt"], backup["last"]["beganAt"]) == ("03:00", "1970-01-01T00:00:05.000Z")
    assert backup["nextAt"]
    assert next(each for each in listed if each["name"] == "archive")["last"] is None


async def test_a_job_that_goes_on_all_the_time_is_recorded_now_and_then_and_at_once_when_it_fails(
    context: Context,
) -> None:
    outcomes = iter([True, True, True, False, False, True])

    async def step() -> float:
        if not next(outcomes):
            raise OSError
        return 1.0

    recorded = RecordedStep(context, Job.ARCHIVE, step)
    for _ in range(3):
        await recorded()
    for _ in range(2):
        with pytest.raises(OSError):
            await recorded()
    await recorded()
    state = (await jobs.states(context.scripts))[Job.ARCHIVE]
    assert [run.error for run in state.runs] == ["", "OSError", ""]
    assert state.next_at > state.runs[0].ended_at


async def test_a_job_that_was_asked_for_by_hand_runs_once_and_one_that_fails_does_not_stop_the_next(
    api: httpx.AsyncClient, context: Context
) -> None:
    ran: list[str] = []

    async def fails() -> None:
        raise ValueError

    async def works() -> None:
        ran.append("works")

    for name in ("trash", "archive", "archive"):
        assert (await api.post(f"/api/v1/jobs/{name}/run")).status_code == 202
    assert [each["running"] for each in (await api.get("/api/v1/jobs")).json()["jobs"]].count(True) == 2
    requests = JobRequests(context, {Job.TRASH: fails, Job.ARCHIVE: works})
    await requests.step()
    await requests.step()
    assert ran == ["works"]
    found = await jobs.states(context.scripts)
    assert (found[Job.TRASH].runs[0].error, found[Job.ARCHIVE].runs[0].error) == ("ValueError", "")
    assert found[Job.ARCHIVE].runs[0].by
    assert (await api.post("/api/v1/jobs/nothing/run")).json()["error"]["code"] == "NO_SUCH_JOB"


async def test_every_job_can_be_run_by_hand(
    api: httpx.AsyncClient, control: Orchestrator, context: Context, redis: Redis, check: FakeCheck
) -> None:
    for job in Job:
        assert (await api.post(f"/api/v1/jobs/{job}/run")).status_code == 202
    assert await runs.requested(context.scripts) is not None
    by_hand = next(each for each in control.loops if getattr(each, "name", "") == "job_requests")
    await by_hand.step()  # type: ignore[attr-defined]
    found = await jobs.states(context.scripts)
    assert {job: state.runs[0].error for job, state in found.items() if state.runs} == {
        Job.ARCHIVE: "", Job.PROXY_CHECKS: "", Job.SUMMARY: "", Job.TRASH: "", Job.VERSION: "",
    }  # fmt: skip
    entries: Any = await redis.xrange("events")
    (summary,) = [fields for _, fields in entries if fields["type"] == "summary.daily"]
    assert json.loads(summary["details"])["sessions"] == 0


async def test_the_version_job_tells_the_newest_version_who_was_refused_and_when_one_tries(
    api: httpx.AsyncClient, control: Orchestrator, context: Context, redis: Redis
) -> None:
    before = (await api.get("/api/v1/jobs")).json()["clientVersion"]
    assert before == {"newest": None, "acceptedAt": None, "refused": 0, "nextTrialAt": None, "expiresAt": None}
    await client_version.record_login(context.scripts, "worker_1", 1_023_456_789)
    await client_version.record_login(context.scripts, "worker_2", 1_000_000_000)
    refused_at = await context.scripts.now_ms()
    outdated: Any = {"id": "worker_3", "status": "failed", "reason": "CLIENT_OUTDATED", "wanted": "running"}
    outdated["changed_at"] = refused_at
    await redis.hset("session:worker_3", mapping=outdated)
    await redis.sadd("sessions:all", "worker_3")
    job = next(each for each in control.loops if getattr(each, "name", "") == "version_recovery")
    await job.step()  # type: ignore[attr-defined]
    answer = (await api.get("/api/v1/jobs")).json()
    told = answer["clientVersion"]
    assert (told["newest"], told["refused"]) == (1_023_456_789, 1)
    assert told["nextTrialAt"] == iso(refused_at + RETRY_AFTER_MS)
    row = next(each for each in answer["jobs"] if each["name"] == "version")
    assert row["last"]["error"] is None
    assert row["nextAt"]
