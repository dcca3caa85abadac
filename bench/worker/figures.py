"""What the kernel says about a process: its share of memory and the CPU it has used."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def pss_mb(pid: int) -> float:
    """Proportional set size: pages of its own, and its share of those that it shares."""
    return _rollup(pid)["Pss"] / 1024


def private_mb(pid: int) -> float:
    """What would come back if this process ended, without what the kernel can drop anyway."""
    return _rollup(pid)["Private_Dirty"] / 1024


def _rollup(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


def cpu_s(pid: int) -> float:
    """User and system time of all its threads since it was started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
