"""A simulated proxy: a real SOCKS5 server that connects WhatsApp's host names to the simulator, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.ports import BACKLOG, LOOPBACK, claim, listen
from wa_orchestrator.simulator.proxies.destinations import Destinations, ProxyAccount
from wa_orchestrator.simulator.proxies.socks_protocol import ConnectRequest, HandshakeError, Reply, negotiate, reply_to

CHUNK = 1 << 16
LOG_LENGTH = 20_000
DEFAULT_LATENCY_MS = 300
FAULTS = ("refuse", "wrong_auth", "blackhole", "slow", "drop")


@dataclass(slots=True, eq=False)
class Tunnel:
    """One open connection through a proxy."""

    host: str
    client: asyncio.StreamWriter
    upstream: asyncio.StreamWriter
    session: str | None = None

    def abort(self) -> None:
        """Reset both sides, as a broken connection does."""
        self.client.transport.abort()
        self.upstream.transport.abort()


class TunnelRegistry:
    """Shared by all proxies: allowed destinations, and the tunnel of each outgoing port."""

    def __init__(self, route: Destinations, clock: Callable[[], float]) -> None:
        self.route = route
        self.clock = clock
        self.owners: dict[int, str] = {}
        self.tunnels: dict[int, tuple[SocksServer, Tunnel]] = {}

    def forget(self, port: int) -> None:
        self.owners.pop(port, None)
        self.tunnels.pop(port, None)


class SocksServer:
    """One SOCKS5 server with its log, counters and faults."""

    def __init__(self, account: ProxyAccount, registry: TunnelRegistry) -> None:
        self.account = account
        self._registry = registry
        self._claim: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._tunnels: set[Tunnel] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults: dict[str, asyncio.TimerHandle | None] = {}
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._latency_s = 0.0
        self._log: deque[dict[str, Any]] = deque(maxlen=LOG_LENGTH)
        self._hosts: Counter[str] = Counter()
        self._address_types: Counter[str] = Counter()
        self._accepted = self._most_sessions = self._bytes_up = self._bytes_down = 0

    # -- life ---------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Listen. The port stays bound until `close`, also while the proxy refuses."""
        if self._claim is None:
            self._claim = claim(self.account.port, self.account.address.bind)
        if self._server is None:
            listener = listen(self.account.port, self.account.address.bind)
            self._server = await asyncio.start_server(self._accept, sock=listener, backlog=BACKLOG)

    async def close(self) -> None:
        for kind in list(self._faults):
            self._forget_timer(kind)
        self._stop_listening()
        for tunnel in list(self._tunnels):
            tunnel.abort()
        await _end(self._tasks)
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    # -- faults -------------------------------------------------------------------------------------------------------

    async def fault(self, kind: str, *, seconds: float | None = None, latency_ms: int = DEFAULT_LATENCY_MS) -> None:
        """Activate a fault for `seconds` or until `clear_faults`; `drop` happens once.

        refuse      new connections are refused, open ones continue (add `drop` for a dead proxy)
        wrong_auth  every password is refused
        blackhole   no data passes: new connections are accepted and hang, open ones stall
        slow        every chunk is delayed by `latency_ms`
        """
        if kind not in FAULTS:
            raise SimulatorError("UNKNOWN_FAULT", f"A proxy has no fault {kind!r}; it has {', '.join(FAULTS)}.")
        if kind == "drop":
            self._drop()
            return
        self._forget_timer(kind)
        match kind:
            case "refuse":
                self._stop_listening()
            case "blackhole":
                self._flowing.clear()
            case "slow":
                self._latency_s = latency_ms / 1000
        self._faults[kind] = None if seconds is None else self._end_later(kind, seconds)

    async def clear_faults(self) -> None:
        """End every fault; a proxy that refused listens again when this returns."""
        for kind in list(self._faults):
            await self._end_fault(kind)

    async def _end_fault(self, kind: str) -> None:
        self._forget_timer(kind)
        match kind:
            case "refuse":
                await self.open()
            case "blackhole":
                self._flowing.set()
            case "slow":
                self._latency_s = 0.0

    def _end_later(self, kind: str, seconds: float) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(seconds, lambda: self._spawn(self._end_fault(kind)))

    def _forget_timer(self, kind: str) -> None:
        timer = self._faults.pop(kind, None)
        if timer is not None:
            timer.cancel()

    def _drop(self) -> None:
        for tunnel in list(self._tunnels):
            tunnel.abort()

    # -- what it saw --------------------------------------------------------------------------------------------------

    def mark_session(self, tunnel: Tunnel, session: str) -> None:
        """Record that this tunnel carries a session.

        Only WhatsApp knows: version checks and health checks connect to the same name, encrypted as well.
        """
        tunnel.session = session
        self._most_sessions = max(self._most_sessions, len(self.live_sessions()))

    def live_sessions(self) -> set[str]:
        """Return the open sessions. Two tunnels of one device, as in a reconnect, are one session."""
        return {tunnel.session for tunnel in self._tunnels if tunnel.session is not None}

    def describe(self) -> dict[str, Any]:
        """Return the log and the counters, as in `GET /proxies`."""
        return {
            "id": self.account.id,
            "url": self.account.url,
            "port": self.account.port,
            "live": len(self.live_sessions()),
            "highWater": self._most_sessions,
            "tunnels": len(self._tunnels),
            "accepted": self._accepted,
            "hosts": dict(self._hosts),
            "addressTypes": dict(self._address_types),
            "bytesUp": self._bytes_up,
            "bytesDown": self._bytes_down,
            "faults": sorted(self._faults),
            "connections": list(self._log),
        }

    def _note(self, outcome: str, request: ConnectRequest | None = None, user: str | None = None) -> None:
        entry: dict[str, Any] = {"at": self._registry.clock(), "outcome": outcome, "user": user}
        if request is not None:
            self._hosts[request.host] += 1
            self._address_types[request.address_type] += 1
            entry |= {"user": request.user, "host": request.host, "port": request.port}
            entry["addressType"] = str(request.address_type)
        self._log.append(entry)

    # -- one connection -----------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        self._spawn(self._serve(reader, writer))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._delay()
            request = await negotiate(reader, writer, self._is_allowed)
            await self._delay()
            await self._tunnel(request, reader, writer)
        except HandshakeError as refusal:
            self._note(refusal.outcome, user=refusal.user)
        except (OSError, EOFError):
            pass  # the client has disconnected; its request is in the log
        finally:
            writer.close()

    async def _tunnel(
        self, request: ConnectRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        target = self._registry.route.resolve(request)
        if isinstance(target, Reply):
            self._note(target.name.lower(), request)
            await reply_to(writer, target)
            return
        async with contextlib.AsyncExitStack() as stack:
            try:
                port, upstream_reader, upstream = await self._dial(target, stack)
            except OSError:
                self._note("upstream_refused", request)
                await reply_to(writer, Reply.REFUSED)
                return
            self._note("open", request)
            tunnel = Tunnel(request.host, writer, upstream)
            self._tunnels.add(tunnel)
            stack.callback(self._tunnels.discard, tunnel)
            self._registry.tunnels[port] = (self, tunnel)
            await reply_to(writer, Reply.SUCCEEDED)
            await self._relay(reader, tunnel, upstream_reader)

    async def _dial(
        self, target: tuple[str, int], stack: contextlib.AsyncExitStack
    ) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to `target`. The local port is registered before the first packet is sent."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.bind((LOOPBACK, 0))
        port = sock.getsockname()[1]
        self._registry.owners[port] = self.account.id
        stack.callback(self._registry.forget, port)
        try:
            await asyncio.get_running_loop().sock_connect(sock, target)
        except BaseException:
            sock.close()
            raise
        reader, writer = await asyncio.open_connection(sock=sock)
        stack.callback(writer.close)
        return port, reader, writer

    async def _relay(self, reader: asyncio.StreamReader, tunnel: Tunnel, upstream: asyncio.StreamReader) -> None:
        """Copy in both directions until one side closes; then close both (TLS cannot use half a connection)."""
        ways = {
            asyncio.create_task(self._copy_up(reader, tunnel.upstream)),
            asyncio.create_task(self._copy_down(upstream, tunnel.client)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(ways)

    async def _copy_up(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK):
            self._bytes_up += len(chunk)
            await self._delay()
            sink.write(chunk)
            await sink.drain()

    async def _copy_down(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK):
            self._bytes_down += len(chunk)
            await self._delay()
            sink.write(chunk)
            await sink.drain()

    async def _delay(self) -> None:
        """Apply `slow` and `blackhole`."""
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if not self._flowing.is_set():
            await self._flowing.wait()

    def _is_allowed(self, user: str, password: str) -> bool:
        if "wrong_auth" in self._faults:
            return False
        same_user = hmac.compare_digest(user.encode(), self.account.id.encode())
        return hmac.compare_digest(password.encode(), self.account.password.encode()) and same_user


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for them; their outcome does not matter."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
