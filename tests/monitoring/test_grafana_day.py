"""After a day of a fleet every panel of the dashboard shows something, and every line of it that can move has moved."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from tests.monitoring.fleet_day import STEP_S, FleetDay, receiver
from tests.monitoring.promql import Scrapes

BOARD: Final = Path(__file__).parents[2] / "deploy/monitoring/grafana-dashboard.json"
#: What a good day does not have.
STILL: Final = {"increase(wa_redis_delayed_syncs[1h])": "needs a slow disk"}
ALTERNATIVES: Final = re.compile(r'\{(\w+)=~"([^"]+)"\}')


def targets() -> list[tuple[str, str]]:
    """Title of the panel and expression of every line of the dashboard."""
    board: Any = json.loads(BOARD.read_text())
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]


def spread(expression: str) -> list[str]:
    """The expression for each of the values that it selects."""
    found = ALTERNATIVES.search(expression)
    if found is None:
        return [expression]
    return [expression.replace(found[0], f'{{{found[1]}="{each}"}}') for each in found[2].split("|")]


def has_data(scrapes: Scrapes, expression: str, begins_s: float, ends_s: float) -> bool:
    """Whether a panel would draw something over the day: of what counts, something that has happened."""
    least = 0.0 if re.search(r"rate|increase", expression) and expression not in STILL else -1.0
    at_s = begins_s
    while at_s <= ends_s:
        if any(value > least for value in scrapes.query(expression, at_s).values()):  # never true of NaN
            return True
        at_s += STEP_S
    return False


@pytest.mark.slow
async def test_every_panel_has_data_after_a_day_of_a_fleet(redis: Redis, tmp_path: Path) -> None:
    day = FleetDay(redis, tmp_path)
    async with receiver() as address:
        await day.run(address)
    begins_s, ends_s = day.now_s - 86_400, day.now_s
    lines = [(title, each) for title, expression in targets() for each in spread(expression)]
    assert len(lines) > 30
    assert [line for line in lines if not has_data(day.scrapes, line[1], begins_s, ends_s)] == []


def test_a_panel_without_a_series_or_with_one_that_stands_still_has_no_data() -> None:
    scrapes = Scrapes()
    for at_s in range(0, 3600, STEP_S):
        scrapes.add(at_s, [("wa_sent_total", {"event": "sent"}, 7), ("wa_asked_total", {}, at_s // STEP_S)])
        scrapes.add(at_s, [("wa_s_bucket", {"le": limit}, 3) for limit in ("0.5", "+Inf")])
    assert has_data(scrapes, "wa_sent_total", 0, 3600)
    assert has_data(scrapes, "rate(wa_asked_total[5m]) * 60", 0, 3600)
    nothing = ("wa_other", 'wa_sent_total{event="read"}', "rate(wa_sent_total[5m])", "increase(wa_sent_total[1h])")
    quantile = "histogram_quantile(0.5, sum by (le) (rate(wa_s_bucket[5m])))"
    assert [each for each in (*nothing, quantile) if has_data(scrapes, each, 0, 3600)] == []
