"""The open connections of one listener: counted by address, and closed when their client takes too long."""

import asyncio
import ipaddress
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

import structlog

from wa_orchestrator.settings import Settings

NEVER: Final = math.inf
#: How often overdue connections are looked for. One pass over thousands of connections takes a millisecond.
_SWEEP_S: Final = 1.0
_REPORT_EVERY_S: Final = 60.0
#: Bytes of a body that give it another second.
SLOWEST_BODY_BYTES_PER_S: Final = 4096

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one listener grants its clients. `trusted` addresses are reverse proxies: many people are behind each."""

    connections: int = 4096
    per_address: int = 256
    head_bytes: int = 65536
    head_s: float = 15.0
    body_s: float = 30.0
    write_s: float = 30.0
    trusted: tuple[str, ...] = ()
    closed_at: tuple[str, ...] = ()
    """Addresses of this machine at which nobody is served, although the listener has them too."""

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        return cls(
            connections=settings.max_connections,
            per_address=settings.max_connections_per_address,
            head_bytes=settings.max_head_bytes,
            head_s=settings.head_timeout_ms / 1000,
            body_s=settings.body_timeout_ms / 1000,
            write_s=settings.write_timeout_ms / 1000,
            trusted=settings.trusted_proxies,
        )

    def inside(self) -> "Limits":
        """Return the limits of a listener for workers, of which a machine has hundreds."""
        return replace(self, trusted=("127.0.0.0/8", "::1/128"))

    def apart_from(self, workers_host: str | None) -> "Limits":
        """Return the limits of a listener that does not serve the network in which this machine is known to workers."""
        return replace(self, closed_at=(workers_host,)) if workers_host else self


class Connection(Protocol):
    """One client's connection."""

    address: str
    local_address: str
    """The one of this machine to which it was made."""

    @property
    def overdue_at(self) -> float:
        """When its client has taken too long; `NEVER` while nothing is expected of it."""
        ...

    def close_overdue(self, now: float) -> None:
        """Close it, unless it is the server that keeps the client waiting."""
        ...


class Connections:
    """The open connections of one listener."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._is_counted = _counted(limits.trusted)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Count a new connection. False, with nothing counted, when it is one too many."""
        address = connection.address
        if connection.local_address in self.limits.closed_at:
            self._refused[address] += 1
            return False
        is_full = len(self._open) >= self.limits.connections
        if is_full or (self._is_counted(address) and self._by_address[address] >= self.limits.per_address):
            self._refused[address] += 1
            return False
        self._open.add(connection)
        self._by_address[address] += 1
        return True

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection that was closed; nothing happens for one that was refused."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    async def run(self) -> None:
        """Close overdue connections until cancelled. Refused ones are logged together: floods must not fill the log."""
        loop = asyncio.get_running_loop()
        report_at = loop.time() + _REPORT_EVERY_S
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = loop.time()
            self.sweep(now)
            if now >= report_at:
                report_at = now + _REPORT_EVERY_S
                self.report()

    def sweep(self, now: float) -> None:
        """Close the connections that are overdue at `now`."""
        for connection in [each for each in self._open if each.overdue_at <= now]:
            connection.close_overdue(now)

    def report(self) -> None:
        """Log how many connections were refused since the last report, and the address with the most."""
        if self._refused:
            (address, most), *_ = self._refused.most_common(1)
            log.warning("connections.refused", refused=self._refused.total(), address=address, of_address=most)
            self._refused.clear()


@lru_cache(maxsize=10_000)
def client_of(host: str) -> str:
    """Return what an address is counted as: itself, or the /64 network of IPv6, which one client has to itself."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)


def _counted(trusted: Sequence[str]) -> Callable[[str], bool]:
    """Return whether connections of a client are limited: not those of reverse proxies, nor of a Unix socket."""
    networks = [ipaddress.ip_network(each) for each in trusted]

    @lru_cache(maxsize=10_000)
    def is_counted(client: str) -> bool:
        try:
            network = ipaddress.ip_network(client)
        except ValueError:
            return client != ""
        return not any(each.version == network.version and each.overlaps(network) for each in networks)

    return is_counted
