"""Identifies processes by pid *and* start time, so that a reused pid is never taken for a worker."""

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
#: Indexes of fields in /proc/<pid>/stat, counted from the first one after the name in parentheses.
_STATE, _GROUP, _START = 0, 2, 19


def _stat(pid: int) -> list[str] | None:
    try:
        text = (PROC / str(pid) / "stat").read_text("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if it has exited or is a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[_STATE] in "ZX" else int(fields[_START])


def started_at_ms(ticks: int) -> int:
    boot_s = next(
        int(line.split()[1]) for line in (PROC / "stat").read_text("ascii").splitlines() if line.startswith("btime")
    )
    return boot_s * 1000 + ticks * 1000 // _TICKS


def group_is_running(group: int) -> bool:
    found = (fields for pid in pids() if (fields := _stat(pid)))
    return any(fields[_STATE] not in "ZX" and int(fields[_GROUP]) == group for fields in found)


def pids() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit())


def environment(pid: int) -> dict[str, str] | None:
    """Return a process's environment; None if it has exited or must not be read."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (part.partition("=") for part in raw.decode("utf-8", "replace").split("\0") if part)
    return {name: value for name, _, value in pairs}
