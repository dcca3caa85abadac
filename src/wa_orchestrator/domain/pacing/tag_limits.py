"""Limits by tag: what an operator set for all sessions with a tag. A session's own limits beat them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import time
from enum import StrEnum
from functools import reduce

from wa_orchestrator.domain.pacing.limits import Override, Pace, overlap


class PaceLimit(StrEnum):
    """A limit that has an origin of its own."""

    PER_DAY = "per_day"
    PER_MINUTE = "per_minute"
    PAUSE = "pause"
    HOURS = "hours"


@dataclass(frozen=True, slots=True)
class TagLimit:
    """The limits of a tag. Unless they were acknowledged (`raises`) they only lower what the preset allows."""

    tag: str
    override: Override
    raises: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a limit comes from: `own`, `tag` (then with its name) or `preset`."""

    kind: str
    tag: str = ""


def under_tags(preset: Pace, limits: Sequence[TagLimit]) -> Pace:
    """Return the limits of a session with these tags; of several limits for one thing the strictest holds."""
    if not limits:
        return preset
    raising = _strictest([each.override for each in limits if each.raises])
    lowering = [each.override for each in limits if not each.raises]
    return reduce(lambda pace, override: stricter(pace, override.onto(pace)), lowering, raising.onto(preset))


def stricter(one: Pace, other: Pace) -> Pace:
    """Return limits that satisfy both. Hours that never overlap stay as `one` has them."""
    pause_ms = max(one.pause_base_ms, other.pause_base_ms)
    longest_ms = max(one.pause_base_ms + one.pause_range_ms, other.pause_base_ms + other.pause_range_ms)
    opens, closes = overlap((one.opens, one.closes), (other.opens, other.closes)) or (one.opens, one.closes)
    return replace(
        one,
        per_day=min(one.per_day, other.per_day),
        per_minute=min(one.per_minute, other.per_minute),
        pause_base_ms=pause_ms,
        pause_range_ms=longest_ms - pause_ms,
        opens=opens,
        closes=closes,
    )


def origins(preset: Pace, tags: Sequence[TagLimit], own: Override) -> Mapping[PaceLimit, Origin]:
    """Return where each limit of a session comes from."""
    tagged = under_tags(preset, tags)
    return {limit: _origin(limit, preset, tags, tagged, own) for limit in PaceLimit}


def _origin(limit: PaceLimit, preset: Pace, tags: Sequence[TagLimit], tagged: Pace, own: Override) -> Origin:
    if any(getattr(own, name) is not None for name in _FIELDS[limit]):
        return Origin("own")
    if _part(tagged, limit) == _part(preset, limit):
        return Origin("preset")
    setting = [each for each in tags if any(getattr(each.override, name) is not None for name in _FIELDS[limit])]
    exact = [each for each in setting if _part(under_tags(preset, [each]), limit) == _part(tagged, limit)]
    return Origin("tag", (exact or setting)[0].tag)


#: The fields of an override that make up a limit.
_FIELDS: Mapping[PaceLimit, tuple[str, ...]] = {
    PaceLimit.PER_DAY: ("per_day",),
    PaceLimit.PER_MINUTE: ("per_minute",),
    PaceLimit.PAUSE: ("pause_base_ms", "pause_range_ms"),
    PaceLimit.HOURS: ("opens", "closes"),
}


def _part(pace: Pace, limit: PaceLimit) -> tuple[object, ...]:
    return tuple(getattr(pace, name) for name in _FIELDS[limit])


def _strictest(overrides: Sequence[Override]) -> Override:
    """Return for each limit the strictest value that one of these sets. Pauses and hours are set in pairs."""
    return Override(
        min((each.per_day for each in overrides if each.per_day is not None), default=None),
        min((each.per_minute for each in overrides if each.per_minute is not None), default=None),
        *_longest_pause(overrides),
        *_common_hours(overrides),
    )


def _longest_pause(overrides: Sequence[Override]) -> tuple[int | None, int | None]:
    pauses = [
        (each.pause_base_ms, each.pause_base_ms + each.pause_range_ms)
        for each in overrides
        if each.pause_base_ms is not None and each.pause_range_ms is not None
    ]
    if not pauses:
        return None, None
    shortest_ms = max(shortest for shortest, _ in pauses)
    return shortest_ms, max(longest for _, longest in pauses) - shortest_ms


def _common_hours(overrides: Sequence[Override]) -> tuple[time | None, time | None]:
    hours = [(each.opens, each.closes) for each in overrides if each.opens is not None and each.closes is not None]
    return reduce(lambda one, other: overlap(one, other) or one, hours) if hours else (None, None)
