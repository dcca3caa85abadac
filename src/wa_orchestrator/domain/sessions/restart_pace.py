"""The pace of restarts: linked sessions come back quickly, but not all at once and not faster than the machine can."""

from typing import Final

#: With less of the machine's CPU time idle than this, restarts take turns at half the pace.
LITTLE_IDLE: Final = 0.1
BUSY_FACTOR: Final = 2.0


def pause_ms(interval_ms: int, *, idle_share: float, dice: float) -> int:
    """Return the pause after a restart: the interval, half of it more or less by `dice` (from 0 to 1).

    While the machine is busy it is twice as long: what is starting gets the CPU first.
    """
    factor = BUSY_FACTOR if idle_share < LITTLE_IDLE else 1.0
    return round(interval_ms * (0.5 + dice) * factor)


def longest_pause_ms(interval_ms: int) -> int:
    """Return the longest pause that is drawn after a restart."""
    return pause_ms(interval_ms, idle_share=0.0, dice=1.0)
