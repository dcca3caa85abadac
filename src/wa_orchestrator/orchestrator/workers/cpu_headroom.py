"""How much CPU time of the machine is idle, since the last look."""

from collections.abc import Callable
from pathlib import Path

_STAT = Path("/proc/stat")
#: Fields of its first line after the name: user, nice, system, idle, iowait, irq, softirq, steal.
_COUNTED, _IDLE, _IOWAIT = 8, 3, 4


class CpuHeadroom:
    """The idle share of all CPUs. Where the kernel does not tell, the machine counts as idle."""

    def __init__(self, read: Callable[[], str] = lambda: _STAT.read_text("ascii")) -> None:
        self._read = read
        self._before = self._times()

    def idle_share(self) -> float:
        """Return the share of CPU time since the last call that was idle, from 0 to 1."""
        before, self._before = self._before, self._times()
        spent = [now - then for now, then in zip(self._before, before, strict=False)]
        return (spent[_IDLE] + spent[_IOWAIT]) / sum(spent) if sum(spent) > 0 else 1.0

    def _times(self) -> list[int]:
        try:
            return [int(word) for word in self._read().split("\n", 1)[0].split()[1 : _COUNTED + 1]]
        except OSError:
            return []
