"""All proxies of a simulated world together."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.ports import ATTEMPTS, free_port
from wa_orchestrator.simulator.proxies.destinations import Account, Route
from wa_orchestrator.simulator.proxies.socks_server import Book, Proxy


class Pool:
    """All proxies of one world, and the book that says which outgoing port belongs to which of them."""

    def __init__(self, *, clock: Callable[[], float] = time.time, allowed: Iterable[tuple[str, int]] = ()) -> None:
        self.route = Route(allowed=frozenset(allowed))
        self._book = Book(self.route, clock)
        self._proxies: dict[str, Proxy] = {}

    def __iter__(self) -> Iterator[Proxy]:
        return iter(self._proxies.values())

    async def add(self, account: Account | None = None) -> Proxy:
        """Start one more proxy; without an account it gets a new one, on a port that is free."""
        if account is not None:
            return await self._start(account)
        for _ in range(ATTEMPTS):
            # Another world may take the same free port at the same moment.
            with contextlib.suppress(SimulatorError):
                return await self._start(self._new_account())
        raise SimulatorError("NO_PORT", "No port could be taken for one more proxy.")

    async def _start(self, account: Account) -> Proxy:
        proxy = Proxy(account, self._book)
        await proxy.open()
        self._proxies[account.id] = proxy
        return proxy

    def find(self, reference: str) -> Proxy:
        """Find a proxy by its id, its URL or its port."""
        port = urlsplit(reference).port if "://" in reference else None
        for proxy in self._proxies.values():
            if reference in (proxy.account.id, str(proxy.account.port)) or port == proxy.account.port:
                return proxy
        known = ", ".join(self._proxies) or "none"
        raise SimulatorError("UNKNOWN_PROXY", f"There is no proxy {reference!r}; there are: {known}.")

    def proxy_of(self, port: int) -> str | None:
        """The id of the proxy that dials from this local port now; None for a connection that came around them."""
        return self._book.owners.get(port)

    def mark_session(self, port: int, session: str) -> None:
        """WhatsApp saw that what comes from this port is a session (a websocket past its handshake)."""
        if found := self._book.tunnels.get(port):
            proxy, tunnel = found
            proxy.mark_session(tunnel, session)

    async def clear_faults(self) -> None:
        """End all faults; every proxy listens again when this returns."""
        for proxy in self._proxies.values():
            await proxy.clear_faults()

    async def close(self) -> None:
        for proxy in self._proxies.values():
            await proxy.close()

    def _new_account(self) -> Account:
        number = len(self._proxies) + 1
        return Account(f"proxy-{number}", secrets.token_hex(12), free_port())
