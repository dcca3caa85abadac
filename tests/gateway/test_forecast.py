"""The forecast of a whole queue says what `pacing.eta` says for each message, only faster."""

from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from wa_orchestrator.domain import pacing
from wa_orchestrator.domain.pacing import PRESETS, Because, Hold, Preset, Situation, Trust
from wa_orchestrator.gateway.forecast import Forecast

YEAR_MS = 365 * 86_400_000
START_MS = 1_750_000_000_000
instants = st.integers(START_MS, START_MS + YEAR_MS)
ages = st.lists(st.integers(0, 2 * 86_400_000), max_size=40)
holds = st.one_of(st.none(), st.integers(0, 3 * 86_400_000))


@settings(max_examples=60, deadline=None)
@given(
    preset=st.sampled_from(Preset), trust=st.sampled_from(Trust), now_ms=instants, ages=ages, held_ms=holds,
    silent_ms=st.integers(-1000, 60_000), service_ms=st.sampled_from([0, 1500, 70_000]),
    burst_ms=st.sampled_from([0, 20_000, 600_000]), positions=st.lists(st.integers(1, 120), min_size=1, max_size=4),
    zone=st.sampled_from(["UTC", "Asia/Jerusalem", "America/New_York"]),
)  # fmt: skip
def test_a_forecast_agrees_with_the_domain(
    preset: Preset, trust: Trust, now_ms: int, ages: list[int], held_ms: int | None, silent_ms: int, service_ms: int,
    burst_ms: int, positions: list[int], zone: str,
) -> None:  # fmt: skip
    pace = PRESETS[preset][trust]
    waits = () if held_ms is None else (Hold(Because.HELD, now_ms + held_ms),)
    sent = sorted(now_ms - age for age in ages)
    situation = Situation(ZoneInfo(zone), sent, now_ms + silent_ms, now_ms + burst_ms, waits)
    forecast = Forecast(pace, situation, now_ms, service_ms=service_ms)
    for position in positions:
        assert forecast.eta(position) == pacing.eta(pace, situation, position, now_ms, service_ms)


def test_without_an_end_in_sight_there_is_no_eta() -> None:
    situation = Situation(ZoneInfo("UTC"), online=False)
    forecast = Forecast(PRESETS[Preset.STANDARD][Trust.HOT], situation, START_MS)
    assert (forecast.eta(7).at_ms, forecast.eta(7).because) == (None, Because.SESSION_OFFLINE)
