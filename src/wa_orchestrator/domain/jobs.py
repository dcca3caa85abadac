"""Background jobs of the server, and when each runs next."""

from datetime import datetime, time, tzinfo
from enum import StrEnum

from wa_orchestrator.domain import backup_schedule

#: When the daily summary is made, in TIMEZONE.
SUMMARY_AT = time(8, 0)


class Job(StrEnum):
    """A job. Each can be run by hand too, and doing it twice does no harm."""

    BACKUP = "backup"
    """A verified backup, daily."""
    ARCHIVE = "archive"
    """Moves what has ended to the history on disk, and erases what its retention no longer keeps."""
    PROXY_CHECKS = "proxy_checks"
    """Checks each proxy when it is due."""
    SUMMARY = "summary"
    """What the last day was like, as an alert."""
    TRASH = "trash"
    """Deletes credentials that were in the trash for long enough."""
    VERSION = "version"
    """Brings sessions back whose client version WhatsApp refused: one tries, its success releases the others."""


#: Jobs that have a time of the day. The others go on all the time and tell themselves when they go on.
DAILY = frozenset({Job.BACKUP, Job.SUMMARY})


def next_daily(job: Job, now: datetime, zone: tzinfo, backup_at: time) -> datetime:
    """Return when a daily job runs next. `now` is in the local zone."""
    return backup_schedule.next_run(now, backup_at if job is Job.BACKUP else SUMMARY_AT, zone)
