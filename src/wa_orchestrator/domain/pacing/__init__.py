"""How fast a phone may send: its limits, whether its next message may leave now, and when each of its queue will."""

from wa_orchestrator.domain.pacing.decision import SendNow, Situation, Wait, WaitFor, WaitUntil, decide
from wa_orchestrator.domain.pacing.forecast import Eta, Forecast, Turn
from wa_orchestrator.domain.pacing.hours import day_bounds_ms, hours_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import (
    BURST_FACTOR,
    BURST_MS,
    DAY_MS,
    HOT_FROM_MS,
    MINUTE_MS,
    PRESETS,
    WARM_FROM_MS,
    BadPace,
    Override,
    Pace,
    Preset,
    Trust,
    burst_factor,
    draw_pause,
    is_burst,
    trust,
)
from wa_orchestrator.domain.pacing.wait_reasons import Because
from wa_orchestrator.domain.pacing.waiting import QueueCounts, Waiting, split_waiting

__all__ = [
    "BURST_FACTOR",
    "BURST_MS",
    "DAY_MS",
    "HOT_FROM_MS",
    "MINUTE_MS",
    "PRESETS",
    "WARM_FROM_MS",
    "BadPace",
    "Because",
    "Eta",
    "Forecast",
    "Override",
    "Pace",
    "Preset",
    "QueueCounts",
    "SendNow",
    "Situation",
    "Trust",
    "Turn",
    "Wait",
    "WaitFor",
    "WaitUntil",
    "Waiting",
    "burst_factor",
    "day_bounds_ms",
    "decide",
    "draw_pause",
    "hours_bounds_ms",
    "is_burst",
    "release_bounds_ms",
    "split_waiting",
    "trust",
]
