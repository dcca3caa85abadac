"""Identifies processes by pid *and* start time, so that a reused pid is never taken for a worker.

A held process is identified once: its pidfd refers to that process, whoever gets the number later.
"""

import asyncio
import os
import select
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
#: Indexes of fields in /proc/<pid>/stat, counted from the first one after the name in parentheses.
_STATE, _GROUP, _START = 0, 2, 19
_READ_BYTES = 65536
#: Between two looks at a process that has no pidfd.
_POLL_S = 0.02


class HeldProcess:
    """A running process, found by its pidfd. Where there is none to be had, by its start time at every look."""

    def __init__(self, pid: int, start: int, fd: int | None) -> None:
        self.pid = pid
        self.start = start
        self._fd = fd

    def has_exited(self) -> bool:
        """Whether it has exited. A zombie has."""
        if self._fd is None:
            return start_time(self.pid) != self.start
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        return bool(poller.poll(0))

    async def wait(self) -> None:
        """Wait until it has exited."""
        if self._fd is None:
            while not self.has_exited():  # noqa: ASYNC110 (without a pidfd nothing announces the exit)
                await asyncio.sleep(_POLL_S)
            return
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        own = os.dup(self._fd)  # a loop has one reader for a descriptor, and several tasks may wait
        loop.add_reader(own, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(own)
            os.close(own)

    def close(self) -> None:
        """Give up the pidfd; the start time still identifies the process."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def hold(pid: int, start: int) -> HeldProcess | None:
    """Hold the process with this pid and start time; None if it has exited."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError:  # an old kernel, a sandbox that forbids it, or too many open files
        fd = None
    held = HeldProcess(pid, start, fd)
    if start_time(pid) == start:  # after the pidfd was opened: the number may have been reused before
        return held
    held.close()
    return None


def _read(pid: int, name: str) -> bytes:
    """Read a file of a process. Without pathlib and decoding, which take several times as long as the kernel."""
    fd = os.open(f"{PROC}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(fd, _READ_BYTES)]
        while parts[-1]:
            parts.append(os.read(fd, _READ_BYTES))
    finally:
        os.close(fd)
    return b"".join(parts)


def _stat(pid: int) -> list[bytes] | None:
    try:
        text = _read(pid, "stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(b")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if it has exited or is a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[_STATE] in b"ZX" else int(fields[_START])


def boot_ms() -> int:
    """Return when the machine started, by its clock as it is set now."""
    lines = (PROC / "stat").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime")) * 1000


def since_boot_ms(ticks: int) -> int:
    """Return a start time in milliseconds since boot."""
    return ticks * 1000 // _TICKS


def group_is_running(group: int) -> bool:
    """Whether a process of this group runs. Zombies do not; all processes are looked at only if there is a zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs under another user
        pass
    found = (fields for pid in pids() if (fields := _stat(pid)))
    return any(fields[_STATE] not in b"ZX" and int(fields[_GROUP]) == group for fields in found)


def pids() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit())


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether a process has this variable in its environment, as far as that may be read."""
    try:
        return f"\0{name}={value}\0".encode() in b"\0" + _read(pid, "environ")
    except OSError:
        return False


def environment(pid: int) -> dict[str, str] | None:
    """Return a process's environment; None if it has exited or must not be read."""
    try:
        raw = _read(pid, "environ")
    except OSError:
        return None
    pairs = (part.partition("=") for part in raw.decode("utf-8", "replace").split("\0") if part)
    return {name: value for name, _, value in pairs}


def owner(pid: int) -> int | None:
    """Return the number of the user whose process it is; None if it has exited."""
    try:
        return (PROC / str(pid)).stat().st_uid
    except OSError:
        return None
