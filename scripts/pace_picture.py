"""Draws docs/pictures/pace.svg from the limits and the forecast of the domain: `python -m scripts.pace_picture`."""

from collections.abc import Iterator
from datetime import UTC, datetime, time
from itertools import takewhile
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.pacing.decision import Situation
from wa_orchestrator.domain.pacing.forecast import Forecast
from wa_orchestrator.domain.pacing.limits import (
    DAY_MS,
    HOT_FROM_MS,
    MINUTE_MS,
    PRESETS,
    WARM_FROM_MS,
    Pace,
    Preset,
    Trust,
)

PICTURE: Final = Path(__file__).parents[1] / "docs" / "pictures" / "pace.svg"
#: How much of a queue is drawn message by message, from noon on.
SHOWN_MS: Final = 5 * MINUTE_MS
NOON_MS: Final = round(datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp() * 1000)
_PACES: Final = PRESETS[Preset.STANDARD]
_COLOURS: Final = {Trust.COLD: "#2f6fb0", Trust.WARM: "#b7791f", Trust.HOT: "#b83232"}
_DAYS: Final = 20
_LEFT, _WIDTH, _HEIGHT = 150, 600, 590
_INK, _FAINT = "#222222", "#d0d0d0"


def leave_ms(pace: Pace) -> list[int]:
    """Return when the messages of a long queue leave, in ms after noon, as far as they are drawn."""
    forecast = Forecast(pace, Situation(ZoneInfo("UTC")), NOON_MS)
    after_noon = ((forecast.eta(ahead).at_ms or NOON_MS) - NOON_MS for ahead in range(pace.per_day))
    return list(takewhile(lambda at_ms: at_ms < SHOWN_MS, after_noon))


def render() -> str:
    """Return the picture."""
    width = _LEFT + _WIDTH + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="13" role="img" aria-label="Pace by trust">\n',
        f'<rect width="{width}" height="{_HEIGHT}" fill="#ffffff"/>\n',
        *_growth(70),
        *_hours(270),
        *_minutes(430),
        "</svg>\n",
    ]
    return "".join(parts)


def _growth(top: int) -> Iterator[str]:
    """How many messages a day, by the days since the phone was linked."""
    yield _title(top - 40, "Messages a day, by the days since it was linked")
    most, height = max(pace.per_day for pace in _PACES.values()), 120
    begins = {Trust.COLD: 0, Trust.WARM: WARM_FROM_MS // DAY_MS, Trust.HOT: HOT_FROM_MS // DAY_MS}
    ends = [*list(begins.values())[1:], _DAYS]
    for (trust, day), until in zip(begins.items(), ends, strict=True):
        tall = round(height * _PACES[trust].per_day / most, 1)
        x, wide = _LEFT + day * _WIDTH / _DAYS, (until - day) * _WIDTH / _DAYS
        yield _bar(x, top + height - tall, wide - 2, tall, trust)
        yield _text(x + wide / 2, top + height - tall - 6, f"{trust}: {_PACES[trust].per_day} a day", anchor="middle")
        yield _text(x, top + height + 18, f"day {day}")


def _hours(top: int) -> Iterator[str]:
    """The hours of the day in which it sends."""
    yield _title(top - 20, "Hours in which it sends")
    for row, (trust, pace) in enumerate(_PACES.items()):
        y = top + row * 28
        yield _text(_LEFT - 12, y + 14, f"{trust}  {pace.opens:%H:%M}–{pace.closes:%H:%M}", anchor="end")
        yield f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="18" fill="{_FAINT}" fill-opacity="0.4"/>\n'
        begin, end = (_WIDTH * _hour(each) / 24 for each in (pace.opens, pace.closes))
        yield _bar(_LEFT + begin, y, end - begin, 18, trust)
    for hour in range(0, 25, 6):
        yield _text(_LEFT + _WIDTH * hour / 24, top + 3 * 28 + 10, f"{hour:02}:00", anchor="middle")


def _minutes(top: int) -> Iterator[str]:
    """Every message of a queue, by the minute."""
    yield _title(top - 20, f"A queue at work: every line is a message, the first {SHOWN_MS // MINUTE_MS} minutes")
    for row, (trust, pace) in enumerate(_PACES.items()):
        y = top + row * 36
        pauses = f"{pace.pause_base_ms / 1000:g}–{(pace.pause_base_ms + pace.pause_range_ms) / 1000:g} s"
        yield _text(_LEFT - 12, y + 12, f"{trust}  {pace.per_minute} a minute", anchor="end")
        yield _text(_LEFT - 12, y + 26, f"pauses {pauses}", anchor="end")
        yield f'<line x1="{_LEFT}" y1="{y + 28}" x2="{_LEFT + _WIDTH}" y2="{y + 28}" stroke="{_FAINT}"/>\n'
        for at_ms in leave_ms(pace):
            x = round(_LEFT + _WIDTH * at_ms / SHOWN_MS, 1)
            yield f'<line class="{trust}" x1="{x}" y1="{y}" x2="{x}" y2="{y + 28}" stroke="{_COLOURS[trust]}"/>\n'
    for minute in range(SHOWN_MS // MINUTE_MS + 1):
        x = _LEFT + _WIDTH * minute * MINUTE_MS / SHOWN_MS
        yield _text(x, top + 3 * 36 + 14, f"{minute} min", anchor="middle")


def _hour(at: time) -> float:
    return at.hour + at.minute / 60


def _title(y: float, text: str) -> str:
    return f'<text x="20" y="{y}" fill="{_INK}" font-weight="bold">{text}</text>\n'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{round(x, 1)}" y="{round(y, 1)}" fill="{_INK}" text-anchor="{anchor}">{text}</text>\n'


def _bar(x: float, y: float, width: float, height: float, trust: Trust) -> str:
    at = f'x="{round(x, 1)}" y="{round(y, 1)}" width="{round(width, 1)}" height="{round(height, 1)}"'
    return f'<rect {at} fill="{_COLOURS[trust]}"/>\n'


if __name__ == "__main__":
    PICTURE.write_text(render(), "utf-8")
    print(PICTURE.name)
