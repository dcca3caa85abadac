"""Pipelined Redis connections: the commands of many requests within one turn of the event loop go out in one write.

No batch waits for the one before it, so Redis always has work and shares each fsync among all waiting commands. (With
one batch at a time per connection, both sides took turns at waiting and this process was idle most of the time.) There
are a few connections because Redis reads only 16 KB of each before it syncs. redis-py opens them (TLS, passwords,
sockets) and hiredis parses the replies; in between there is nothing per command but a tuple and a callback.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import hiredis
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from wa_orchestrator.errors import Broken, OrchestratorError
from wa_orchestrator.gateway import replies
from wa_orchestrator.gateway.redis_access import RESPONSE_S, Command, Part, redis_error
from wa_orchestrator.store.engine.scripts import Reply, Scripts

CONNECTIONS: Final = 4
#: Requests that may wait for Redis before further ones are refused; an unbounded queue helps nobody.
MAX_WAITING: Final = 20_000
_CHUNK: Final = 1 << 16

OnReplies = Callable[[list[Any] | OrchestratorError], None]
"""Takes the replies to commands that were sent together, error replies among them, or the error of the connection."""
_Request = tuple[Sequence[Command], OnReplies]

#: Its stub asks for a tuple of one; it takes any.
_pack: Any = hiredis.pack_command

log = structlog.get_logger(__name__)


class _Pending(NamedTuple):
    """Commands that were sent together, and the replies so far."""

    size: int
    on_replies: OnReplies
    deadline_s: float
    replies: list[Any]


class PipelinedConnection:
    """One connection on which requests follow one another without waiting; replies come in the same order.

    When it breaks, or does not respond in time, all pending requests fail, and the next request opens it again. Whether
    Redis has executed what failed is unknown: that is what idempotency keys are for.
    """

    def __init__(self, redis: Redis, response_s: float) -> None:
        pool = redis.connection_pool
        # Only RESP2 has the same shapes whatever the server; redis-py's own default differs by version.
        self._connection: Any = pool.connection_class(**{**pool.connection_kwargs, "protocol": 2})
        self._response_s = response_s
        self._backlog: list[_Request] = []
        self._pending: deque[_Pending] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_open = False
        self._timer: asyncio.TimerHandle | None = None

    def send(self, batch: Sequence[_Request]) -> None:
        """Send a batch now, or as soon as the connection is open."""
        if self._is_open:
            self._write(batch)
            return
        self._backlog += batch
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Close the connection; pending requests fail."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _write(self, batch: Sequence[_Request]) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._response_s
        packed = []
        for commands, on_replies in batch:
            packed += [_pack(command) for command in commands]
            self._pending.append(_Pending(len(commands), on_replies, deadline_s, []))
        self._connection._writer.write(b"".join(packed))
        if self._timer is None:
            self._timer = loop.call_later(self._response_s, self._check_deadline)

    def _check_deadline(self) -> None:
        """Give the connection up when its oldest request has waited for too long."""
        self._timer = None
        if not self._pending or self._task is None:
            return
        left_s = self._pending[0].deadline_s - asyncio.get_running_loop().time()
        if left_s > 0:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._check_deadline)
        else:
            self._task.cancel()

    async def _run(self) -> None:
        """Open the connection, and read replies until it ends."""
        error: BaseException = TimeoutError("Redis did not respond in time")
        try:
            async with asyncio.timeout(self._response_s):
                await self._connection.connect()
            self._is_open = True
            backlog, self._backlog = self._backlog, []
            self._write(backlog)
            await self._read()
        except asyncio.CancelledError:
            pass  # timed out or closed
        except (RedisError, OSError, TimeoutError, hiredis.ProtocolError) as broken:
            error = broken
        finally:
            self._is_open = False
            self._task = None
            self._fail(error)
            await self._connection.disconnect(nowait=True)
            if self._backlog:  # sent while the connection was being closed
                self.send([])

    async def _read(self) -> None:
        reader = hiredis.Reader(encoding="utf-8", errors="replace")
        while chunk := await self._connection._reader.read(_CHUNK):
            reader.feed(chunk)
            while (reply := reader.gets()) is not False:
                self._receive(reply)
        raise ConnectionResetError("Redis closed the connection")

    def _receive(self, reply: Any) -> None:
        """Add a reply to the oldest request. Not part of `_read`, whose variables would keep its callback alive."""
        oldest = self._pending[0]
        oldest.replies.append(reply)
        if len(oldest.replies) == oldest.size:
            self._pending.popleft()
            oldest.on_replies(oldest.replies)

    def _fail(self, error: BaseException) -> None:
        callbacks = [*(each.on_replies for each in self._pending), *(on_replies for _, on_replies in self._backlog)]
        self._pending.clear()
        self._backlog = []
        if callbacks:
            log.warning("queue.unavailable", calls=len(callbacks), error=type(error).__name__)
        for on_replies in callbacks:
            failure = replies.uncertain()
            failure.__cause__ = error
            on_replies(failure)


class PipelinedRedis:
    """Collects the commands of one turn of the event loop and spreads the batches over a few connections."""

    def __init__(self, scripts: Scripts, *, response_s: float = RESPONSE_S) -> None:
        self.scripts = scripts
        self._response_s = response_s
        self._connections = [PipelinedConnection(scripts.redis, response_s) for _ in range(CONNECTIONS)]
        self._next = 0
        self._waiting = 0
        self._batch: list[_Request] = []
        self._loading: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether another request may wait."""
        return self._waiting < MAX_WAITING

    async def call(self, *command: Part) -> Any:
        """Run one command."""
        return _shaped(command, checked((await self.replies([command]))[0]))

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in their order, in one round trip."""
        if not commands:
            return []
        found = await self.replies(commands)
        return [_shaped(command, checked(reply)) for command, reply in zip(commands, found, strict=True)]

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Part] = ()) -> Reply:
        """Run a script."""
        command = self.script_command(name, keys, args)
        reply = (await self.replies([command]))[0]
        if is_unknown_script(reply):  # a restart of Redis forgets scripts
            await self.load()
            reply = (await self.replies([command]))[0]
        found = checked(reply)
        if not isinstance(found, list) or not found:
            raise Broken(f"script {name} returned {found!r}")
        return found

    def script_command(self, name: str, keys: Sequence[str], args: Sequence[Part]) -> Command:
        """Return the command that runs a loaded script."""
        return ("EVALSHA", self.scripts.digest(name), len(keys), *keys, *args)

    def send(self, commands: Sequence[Command], on_replies: OnReplies) -> None:
        """Send commands with all others of this turn of the loop."""
        if not self._batch:
            asyncio.get_running_loop().call_soon(self._flush)
        self._batch.append((commands, on_replies))

    async def load(self) -> None:
        """Load all scripts. Callers at the same time share one load and go on in their order."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())
        await asyncio.shield(self._loading)

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            await connection.close()

    def enter(self, requests: int) -> None:
        """Count requests that begin to wait; raises when too many wait already."""
        if not self.has_room:
            raise replies.unavailable()
        self._waiting += requests

    def leave(self, requests: int) -> None:
        """Count requests that wait no more."""
        self._waiting -= requests

    async def _load(self) -> None:
        try:
            async with asyncio.timeout(self._response_s):
                await self.scripts.load()
        except (RedisError, OSError, TimeoutError) as error:
            raise replies.unavailable() from error
        finally:
            self._loading = None

    async def replies(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies, error replies among them."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

        def on_replies(received: list[Any] | OrchestratorError) -> None:
            if future.done():  # its request was cancelled
                return
            if isinstance(received, list):
                future.set_result(received)
            else:
                future.set_exception(received)

        self.enter(1)
        try:
            self.send(commands, on_replies)
            return await future
        finally:
            self.leave(1)

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        self._next = (self._next + 1) % CONNECTIONS
        self._connections[self._next].send(batch)


def is_unknown_script(reply: Any) -> bool:
    """Whether Redis does not know the script, and so has done nothing."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")


def checked(reply: Any) -> Any:
    """Return a reply; raises for an error reply."""
    if isinstance(reply, hiredis.ReplyError):
        raise redis_error(str(reply)) from reply
    return reply


def _shaped(command: Command, reply: Any) -> Any:
    """Return a RESP2 reply in the shape of RESP3."""
    if command[0] == "HGETALL":
        return dict(zip(reply[::2], reply[1::2], strict=True))
    if command[-1] == "WITHSCORES":
        return [[member, float(score)] for member, score in zip(reply[::2], reply[1::2], strict=True)]
    return reply
