"""What waits for a phone is split into now, today and later, and nothing is counted twice or lost."""

from dataclasses import replace
from datetime import time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.pacing.backlog import Backlog, Part, QueueCounts, leaving_today, split_backlog
from wa_orchestrator.domain.pacing.limits import PRESETS, Preset, Trust

ZONE = ZoneInfo("UTC")
DAY_MS = 86_400_000
NOON = 20_000 * DAY_MS + 12 * 3_600_000
PACE = replace(PRESETS[Preset.STANDARD][Trust.COLD], per_day=20, opens=time(9), closes=time(21))


@pytest.mark.parametrize(
    ("hour", "counts", "expected"),
    [
        (12, QueueCounts(queued=5), Backlog(5, 0, 0)),
        (12, QueueCounts(queued=15, sent_today=10), Backlog(10, 0, 5)),
        (12, QueueCounts(queued=5, scheduled=8, scheduled_today=3), Backlog(5, 3, 5)),
        (12, QueueCounts(queued=18, scheduled=8, scheduled_today=3), Backlog(18, 2, 6)),
        (12, QueueCounts(scheduled=800, sent_today=20), Backlog(0, 0, 800)),
        (12, QueueCounts(set_aside=4), Backlog(0, 0, 4)),
        (7, QueueCounts(queued=5), Backlog(0, 5, 0)),
        (22, QueueCounts(queued=5), Backlog(0, 0, 5)),
    ],
)
def test_each_message_is_in_the_part_in_which_it_can_leave(hour: int, counts: QueueCounts, expected: Backlog) -> None:
    assert split_backlog(PACE, ZONE, counts, NOON + (hour - 12) * 3_600_000) == expected


@pytest.mark.parametrize(("later", "days"), [(0, 0), (1, 1), (PACE.per_day, 1), (PACE.per_day + 1, 2)])
def test_what_is_left_after_today_takes_whole_days(later: int, days: int) -> None:
    assert Backlog(now=500, later=later).days_after_today(PACE) == days


_COUNT = st.integers(0, 50)


@given(_COUNT, _COUNT, _COUNT, _COUNT, _COUNT, st.integers(0, DAY_MS))
def test_the_three_parts_are_everything_that_waits(
    queued: int, aside: int, today: int, later: int, sent: int, at_ms: int
) -> None:
    counts = QueueCounts(queued, aside, today + later, today, sent)
    found = split_backlog(PACE, ZONE, counts, NOON + at_ms)
    assert min(found.now, found.today, found.later) >= 0
    assert found.total == queued + aside + today + later
    assert found.now + found.today <= max(0, PACE.per_day - sent)


@given(_COUNT, _COUNT, _COUNT, _COUNT, st.integers(0, DAY_MS))
def test_the_parts_of_single_messages_add_up_to_the_backlog(
    queued: int, today: int, later: int, sent: int, at_ms: int
) -> None:
    counts = QueueCounts(queued, 1, today + later, today, sent)
    leaving = leaving_today(PACE, ZONE, counts, NOON + at_ms)
    parts = [leaving.part(queue_rank=rank, later_rank=None) for rank in range(queued)]
    parts += [leaving.part(queue_rank=None, later_rank=rank) for rank in range(today + later)]
    parts.append(leaving.part(queue_rank=None, later_rank=None))  # set aside
    assert split_backlog(PACE, ZONE, counts, NOON + at_ms) == Backlog(*(parts.count(part) for part in Part))
