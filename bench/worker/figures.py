"""Memory and CPU time of a process, from the kernel."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def pss_mb(pid: int) -> float:
    """Return the proportional set size: private pages, and its part of shared ones."""
    return _rollup(pid)["Pss"] / 1024


def private_mb(pid: int) -> float:
    """Return the memory that the end of this process would free, without what the kernel can drop anyway."""
    return _rollup(pid)["Private_Dirty"] / 1024


def _rollup(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


def cpu_s(pid: int) -> float:
    """Return user and system time of all its threads since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
