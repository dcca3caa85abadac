"""The pool of simulated proxies."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.ports import ATTEMPTS, LOCAL, Address, free_port
from wa_orchestrator.simulator.proxies.destinations import Destinations, ProxyAccount
from wa_orchestrator.simulator.proxies.socks_server import SocksServer, TunnelRegistry


class SocksPool:
    """All SOCKS servers, with a registry of their outgoing ports."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        allowed: Iterable[tuple[str, int]] = (),
        address: Address = LOCAL,
    ) -> None:
        self.address = address
        self.route = Destinations(allowed=frozenset(allowed))
        self._registry = TunnelRegistry(self.route, clock)
        self._proxies: dict[str, SocksServer] = {}

    def __iter__(self) -> Iterator[SocksServer]:
        return iter(self._proxies.values())

    async def add(self, account: ProxyAccount | None = None) -> SocksServer:
        """Start another proxy; without an account with a new one on a free port."""
        if account is not None:
            return await self._start(account)
        for _ in range(ATTEMPTS):
            # Another simulator may take the same free port at the same moment.
            with contextlib.suppress(SimulatorError):
                return await self._start(self._new_account())
        raise SimulatorError("NO_PORT", "There is no free port for another proxy.")

    async def _start(self, account: ProxyAccount) -> SocksServer:
        proxy = SocksServer(account, self._registry)
        await proxy.open()
        self._proxies[account.id] = proxy
        return proxy

    def find(self, reference: str) -> SocksServer:
        """Return a proxy by its id, its URL or its port."""
        port = urlsplit(reference).port if "://" in reference else None
        for proxy in self._proxies.values():
            if reference in (proxy.account.id, str(proxy.account.port)) or port == proxy.account.port:
                return proxy
        known = ", ".join(self._proxies) or "none"
        raise SimulatorError("UNKNOWN_PROXY", f"There is no proxy {reference!r}; there are: {known}.")

    def proxy_of(self, port: int) -> str | None:
        """Return the id of the proxy with this outgoing port; None for a connection without a proxy."""
        return self._registry.owners.get(port)

    def mark_session(self, port: int, session: str) -> None:
        """Record that the connection from this port is a session (a WebSocket after its handshake)."""
        if found := self._registry.tunnels.get(port):
            proxy, tunnel = found
            proxy.mark_session(tunnel, session)

    async def clear_faults(self) -> None:
        """End all faults; every proxy listens again when this returns."""
        for proxy in self._proxies.values():
            await proxy.clear_faults()

    async def close(self) -> None:
        for proxy in self._proxies.values():
            await proxy.close()

    def _new_account(self) -> ProxyAccount:
        number = len(self._proxies) + 1
        return ProxyAccount(f"proxy-{number}", secrets.token_hex(12), free_port(), self.address)
