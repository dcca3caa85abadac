"""The limit of open files: raised at the start, because every connection needs one."""

import resource
from dataclasses import replace
from typing import Final

from wa_orchestrator.web.connections import Limits

#: More than any number of connections that the settings make sense with; some systems have no limit at all.
_WANTED: Final = 65536
#: For Redis, workers' logs, uploads and libraries.
_RESERVED: Final = 256


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one, within reason; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return min(soft, _WANTED) if soft != resource.RLIM_INFINITY else _WANTED
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def shared(limits: Limits, listeners: int) -> Limits:
    """Return the limits of each of several listeners: together they must not use up the open files."""
    room = max(16, (raise_limit() - _RESERVED) // listeners)
    return replace(limits, connections=min(limits.connections, room))
