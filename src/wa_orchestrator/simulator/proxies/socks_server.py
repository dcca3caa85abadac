"""One simulated proxy: a real SOCKS5 server that leads WhatsApp's names to the simulator and nothing anywhere else."""

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
from wa_orchestrator.simulator.proxies.destinations import Account, Route
from wa_orchestrator.simulator.proxies.socks_protocol import HandshakeError, Reply, Request, answer, negotiate

CHUNK = 1 << 16
LOG_LENGTH = 20_000
DEFAULT_LATENCY_MS = 300
FAULTS = ("refuse", "wrong_auth", "blackhole", "slow", "drop")


@dataclass(slots=True, eq=False)
class Tunnel:
    """One connection that passes through a proxy now."""

    host: str
    client: asyncio.StreamWriter
    upstream: asyncio.StreamWriter
    session: str | None = None

    def cut(self) -> None:
        """End both halves at once, as a broken line does."""
        self.client.transport.abort()
        self.upstream.transport.abort()


class Book:
    """What the proxies of one world share: where they lead to, and which outgoing port belongs to which of them."""

    def __init__(self, route: Route, clock: Callable[[], float]) -> None:
        self.route = route
        self.clock = clock
        self.owners: dict[int, str] = {}
        self.tunnels: dict[int, tuple[Proxy, Tunnel]] = {}

    def forget(self, port: int) -> None:
        self.owners.pop(port, None)
        self.tunnels.pop(port, None)


class Proxy:
    """One SOCKS5 server with its log, its counts and its faults."""

    def __init__(self, account: Account, book: Book) -> None:
        self.account = account
        self._book = book
        self._place: socket.socket | None = None
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
        """Listen. The port stays taken until `close`, also while the proxy refuses."""
        if self._place is None:
            self._place = claim(self.account.port)
        if self._server is None:
            listener = listen(self.account.port)
            self._server = await asyncio.start_server(self._accept, sock=listener, backlog=BACKLOG)

    async def close(self) -> None:
        for kind in list(self._faults):
            self._forget_timer(kind)
        self._stop_listening()
        for tunnel in list(self._tunnels):
            tunnel.cut()
        await _end(self._tasks)
        if self._place is not None:
            self._place.close()
            self._place = None

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    # -- faults -------------------------------------------------------------------------------------------------------

    async def fault(self, kind: str, *, seconds: float | None = None, latency_ms: int = DEFAULT_LATENCY_MS) -> None:
        """Go wrong in one way, for `seconds` or until `clear_faults`; `drop` happens once.

        refuse      new connections are refused, live ones go on (add `drop` for a proxy that died)
        wrong_auth  no password is right any more
        blackhole   nothing passes: new connections are accepted and hang, live ones stand still
        slow        every piece of every connection comes `latency_ms` late
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
            tunnel.cut()

    # -- what it saw --------------------------------------------------------------------------------------------------

    def mark_session(self, tunnel: Tunnel, session: str) -> None:
        """Remember that this tunnel carries a session.

        Only WhatsApp can tell: a version look-up and a health check dial the same name and are encrypted as well.
        """
        tunnel.session = session
        self._most_sessions = max(self._most_sessions, len(self.live_sessions()))

    def live_sessions(self) -> set[str]:
        """The sessions that pass through now. Two tunnels of one device, as in a reconnect, are one session."""
        return {tunnel.session for tunnel in self._tunnels if tunnel.session is not None}

    def picture(self) -> dict[str, Any]:
        """Everything this proxy counted, as `GET /proxies` shows it."""
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

    def _note(self, outcome: str, request: Request | None = None, user: str | None = None) -> None:
        entry: dict[str, Any] = {"at": self._book.clock(), "outcome": outcome, "user": user}
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
            await self._gate()
            request = await negotiate(reader, writer, self._is_allowed)
            await self._gate()
            await self._lead(request, reader, writer)
        except HandshakeError as refusal:
            self._note(refusal.outcome, user=refusal.user)
        except (OSError, EOFError):
            pass  # the client went away; what it had asked for is in the log
        finally:
            writer.close()

    async def _lead(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._book.route.resolve(request)
        if isinstance(target, Reply):
            self._note(target.name.lower(), request)
            await answer(writer, target)
            return
        async with contextlib.AsyncExitStack() as stack:
            try:
                port, upstream_reader, upstream = await self._dial(target, stack)
            except OSError:
                self._note("upstream_refused", request)
                await answer(writer, Reply.REFUSED)
                return
            self._note("open", request)
            tunnel = Tunnel(request.host, writer, upstream)
            self._tunnels.add(tunnel)
            stack.callback(self._tunnels.discard, tunnel)
            self._book.tunnels[port] = (self, tunnel)
            await answer(writer, Reply.SUCCEEDED)
            await self._relay(reader, tunnel, upstream_reader)

    async def _dial(
        self, target: tuple[str, int], stack: contextlib.AsyncExitStack
    ) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to `target`. The local port is in the book before the first packet leaves."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.bind((LOOPBACK, 0))
        port = sock.getsockname()[1]
        self._book.owners[port] = self.account.id
        stack.callback(self._book.forget, port)
        try:
            await asyncio.get_running_loop().sock_connect(sock, target)
        except BaseException:
            sock.close()
            raise
        reader, writer = await asyncio.open_connection(sock=sock)
        stack.callback(writer.close)
        return port, reader, writer

    async def _relay(self, reader: asyncio.StreamReader, tunnel: Tunnel, upstream: asyncio.StreamReader) -> None:
        """Carry both ways until one side ends; then both end (TLS has no use for half a connection)."""
        ways = {
            asyncio.create_task(self._carry_up(reader, tunnel.upstream)),
            asyncio.create_task(self._carry_down(upstream, tunnel.client)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(ways)

    async def _carry_up(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK):
            self._bytes_up += len(chunk)
            await self._gate()
            sink.write(chunk)
            await sink.drain()

    async def _carry_down(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK):
            self._bytes_down += len(chunk)
            await self._gate()
            sink.write(chunk)
            await sink.drain()

    async def _gate(self) -> None:
        """Where `slow` and `blackhole` hold things up."""
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
    """Cancel tasks and wait until they are over; how they ended is of no interest."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
