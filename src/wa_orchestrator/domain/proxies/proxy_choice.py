"""Which proxy a session gets."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """A proxy with the number of its sessions."""

    proxy_id: str
    sessions: int
    healthy: bool = True


def ranked(candidates: Iterable[Load], max_per_proxy: int) -> list[str]:
    """Return the healthy proxies with room, the least loaded first; ties go to the first id."""
    with_room = [load for load in candidates if load.healthy and load.sessions < max_per_proxy]
    return [load.proxy_id for load in sorted(with_room, key=lambda load: (load.sessions, load.proxy_id))]
