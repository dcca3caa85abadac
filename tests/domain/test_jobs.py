"""When jobs run next."""

from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest

from wa_orchestrator.domain.jobs import Job, next_daily

ZONE = ZoneInfo("Asia/Jerusalem")


@pytest.mark.parametrize(
    ("job", "now", "coming"),
    [
        (Job.BACKUP, "2026-01-31T02:00", "2026-01-31T03:30"),
        (Job.BACKUP, "2026-01-31T04:00", "2026-02-01T03:30"),
        (Job.SUMMARY, "2026-01-31T04:00", "2026-01-31T08:00"),
        (Job.SUMMARY, "2026-01-31T08:00", "2026-02-01T08:00"),
    ],
)
def test_a_daily_job_runs_next_at_its_time_today_or_tomorrow(job: Job, now: str, coming: str) -> None:
    local = datetime.fromisoformat(now).replace(tzinfo=ZONE)
    assert next_daily(job, local, ZONE, time(3, 30)) == datetime.fromisoformat(coming).replace(tzinfo=ZONE)
