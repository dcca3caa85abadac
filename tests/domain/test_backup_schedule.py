"""When backups are due, and which are kept."""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.backup_schedule import is_due, next_run, scheduled_day, surplus

JERUSALEM = ZoneInfo("Asia/Jerusalem")
AT = time(3, 0)


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=JERUSALEM)


@pytest.mark.parametrize(
    ("now", "last_day", "due"),
    [
        ("2026-01-31T02:59", "2026-01-30", False),
        ("2026-01-31T03:00", "2026-01-30", True),
        ("2026-01-31T03:01", "2026-01-31", False),
        ("2026-01-31T23:59", "2026-01-30", True),  # the server was down at the time
        ("2026-02-01T02:00", "2026-01-30", True),  # all of yesterday
        ("2026-02-09T12:00", "2026-01-30", True),  # for days: once
    ],
)
def test_a_backup_is_due_from_its_time_on_until_it_is_made(now: str, last_day: str, due: bool) -> None:
    assert is_due(local(now), AT, last_day) is due


@pytest.mark.parametrize(
    ("now", "expected"),
    [("2026-01-31T02:59", "2026-01-31T03:00"), ("2026-01-31T03:00", "2026-02-01T03:00")],
)
def test_the_next_run_is_at_its_time_today_or_tomorrow(now: str, expected: str) -> None:
    assert next_run(local(now), AT, JERUSALEM) == local(expected)


@given(st.datetimes(datetime(2025, 1, 1), datetime(2030, 1, 1)), st.times())  # noqa: DTZ001 - a local time
def test_after_a_backup_none_is_due_before_the_next_run(moment: datetime, at: time) -> None:
    now = moment.replace(tzinfo=JERUSALEM)
    assert not is_due(now, at, scheduled_day(now, at))
    coming = next_run(now, at, JERUSALEM)
    assert is_due(coming.replace(tzinfo=JERUSALEM), at.replace(tzinfo=None), scheduled_day(now, at))
    assert coming.replace(tzinfo=None) - moment <= timedelta(days=1)


def test_the_oldest_are_deleted_and_never_more_than_needed() -> None:
    ids = ["backup_2026-01-03", "backup_2026-01-01", "backup_2026-01-01_120000", "backup_2026-01-02"]
    assert surplus(ids, 2) == ["backup_2026-01-01", "backup_2026-01-01_120000"]
    assert surplus(ids, 4) == surplus([], 4) == []
