"""The Redis line: a few pipelined connections that all parts of a process share.

The commands of one turn of the event loop go out in one write, and no batch waits for the one before it: Redis always
has work, and shares each fsync among all waiting commands. (With one batch at a time per connection, both sides took
turns at waiting and this process was idle most of the time.) There are a few connections because Redis reads only 16 KB
of each before it syncs. redis-py opens them (TLS, passwords, sockets) and hiredis parses the replies; in between there
is nothing per command but a tuple and a callback, where redis-py takes 80 to 110 µs.

Nothing is sent twice: whether Redis has executed what failed is unknown, and a second execution could do harm.

Where the operator has asked for it (`REDIS_REPLICAS_ACK`), a batch that may write ends with WAIT, and its replies are
held back until that many replicas have what it wrote. Too few in time is an error like a lost connection: whether the
write survives is unknown.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import hiredis
import structlog
from redis._parsers import BaseParser
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, InvalidResponse, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from wa_orchestrator.store.engine.cancellation import end_if_cancelled
from wa_orchestrator.store.keys import REPLICATION_BARRIER

CONNECTIONS: Final = 4
#: How long Redis may take to respond before a request fails.
RESPONSE_S: Final = 3.0
#: Requests that may wait for Redis before further ones are refused; an unbounded queue helps nobody.
MAX_WAITING: Final = 20_000
#: A restart of Redis takes a fraction of a second: requests that come meanwhile wait for it, and no longer.
_CONNECT_AGAIN_S, _CONNECT_RETRIES = 0.1, 5
#: Where no Sentinel says who is the primary, a Redis that is read-only is asked for this long before its address is.
_STAYS_S: Final = 1.0
_CHUNK: Final = 1 << 16
#: Replicas answer within a round trip. Shorter than `RESPONSE_S`: the error then says what was waited for.
_REPLICATION_MS: Final = 2000
#: Commands that write nothing: what they say is not held back. Scripts, and whatever is not listed, may write.
_READS: Final = frozenset(
    {
        "CONFIG GET", "DBSIZE", "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSCAN",
        "INFO", "LLEN", "LRANGE", "MEMORY USAGE", "MGET", "PING", "PTTL", "SCAN", "SCARD", "SCRIPT LOAD", "SISMEMBER",
        "SMEMBERS", "SMISMEMBER", "SSCAN", "TIME", "TTL", "TYPE", "XINFO STREAM", "XLEN", "XRANGE", "XREAD",
        "XREVRANGE", "ZCARD", "ZCOUNT", "ZLEXCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZREVRANGE",
        "ZREVRANGEBYSCORE", "ZSCAN", "ZSCORE",
    }
)  # fmt: skip

Command = Sequence[Any]
OnReplies = Callable[[list[Any] | RedisError], None]
"""Takes the replies to commands that were sent together, error replies among them, or the error of the connection."""
_Request = tuple[Sequence[Command], OnReplies]

log = structlog.get_logger(__name__)


class _Pending(NamedTuple):
    """Commands that were sent together, and the replies so far."""

    size: int
    on_replies: OnReplies
    deadline_s: float
    replies: list[Any]


class LineConnection:
    """One connection on which requests follow one another without waiting; replies come in the same order.

    When it breaks, or does not respond in time, all pending requests fail, and the next request opens it again.
    """

    def __init__(self, pool: ConnectionPool, response_s: float, replicas: int) -> None:
        retry = Retry(ConstantBackoff(_CONNECT_AGAIN_S), _CONNECT_RETRIES)
        self._connection: Any = pool.connection_class(**{**pool.connection_kwargs, "retry": retry})
        self._response_s = response_s
        self._replicas = replicas
        #: Whether Sentinels say which Redis is the primary; then one that refuses to write is left at once.
        self._may_move = isinstance(pool, SentinelConnectionPool)
        self._backlog: list[_Request] = []
        self._pending: deque[_Pending] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_open = False
        self._opened_at = 0.0
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
        if self._replicas and any(command[0] not in _READS for commands, _ in batch for command in commands):
            batch = _held_back(batch, self._replicas)
        for commands, on_replies in batch:
            try:
                words = [_pack(command) for command in commands]
            except (TypeError, UnicodeError) as error:  # one that cannot be sent must not keep others from being sent
                on_replies(DataError(str(error)))
                continue
            packed += words
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
        error: RedisError = RedisTimeoutError("Redis did not respond in time")
        try:
            async with asyncio.timeout(self._response_s):
                await self._connection.connect()
            end_if_cancelled()
            self._is_open = True
            self._opened_at = asyncio.get_running_loop().time()
            backlog, self._backlog = self._backlog, []
            self._write(backlog)
            await self._read()
        except (asyncio.CancelledError, TimeoutError):
            pass  # timed out or closed
        except RedisError as broken:
            error = broken
        except (OSError, hiredis.ProtocolError) as broken:
            error = RedisConnectionError(f"Redis is away: {broken}")
        finally:
            self._is_open = False
            self._task = None
            self._fail(error)
            await self._connection.disconnect(nowait=True)
            if self._backlog:  # sent while the connection was being closed
                self.send([])

    async def _read(self) -> None:
        reader = hiredis.Reader(
            protocolError=InvalidResponse, replyError=BaseParser.parse_error, encoding="utf-8", errors="replace"
        )
        while chunk := await self._connection._reader.read(_CHUNK):
            reader.feed(chunk)
            while (reply := reader.gets()) is not False:
                self._receive(reply)
        raise ConnectionResetError("it closed the connection")

    def _receive(self, reply: Any) -> None:
        """Add a reply to the oldest request. Not part of `_read`, whose variables would keep its callback alive."""
        if isinstance(reply, hiredis.PushNotification):  # the server's own announcement, no reply
            return
        oldest = self._pending[0]
        oldest.replies.append(reply)
        if len(oldest.replies) == oldest.size:
            self._pending.popleft()
            oldest.on_replies(oldest.replies)
        if isinstance(reply, ReadOnlyError) and self._task is not None and self._may_leave():
            self._task.cancel()  # a replica now; the next request asks who is the primary

    def _may_leave(self) -> bool:
        """Whether another connection may lead to another Redis: the Sentinels know, a name may by now."""
        return self._may_move or asyncio.get_running_loop().time() - self._opened_at > _STAYS_S

    def _fail(self, error: RedisError) -> None:
        callbacks = [*(each.on_replies for each in self._pending), *(on_replies for _, on_replies in self._backlog)]
        self._pending.clear()
        self._backlog = []
        if callbacks:
            log.warning("redis.unavailable", calls=len(callbacks), error=type(error).__name__)
        for on_replies in callbacks:
            on_replies(error)


class RedisLine:
    """Collects the commands of one turn of the event loop and spreads the batches over a few connections."""

    def __init__(self, pool: ConnectionPool, response_s: float = RESPONSE_S, replicas: int = 0) -> None:
        self.replicas = replicas
        self._connections = [LineConnection(pool, response_s, replicas) for _ in range(CONNECTIONS)]
        self._next = 0
        self._waiting = 0
        self._batch: list[_Request] = []

    @property
    def has_room(self) -> bool:
        """Whether another request may wait."""
        return self._waiting < MAX_WAITING

    def send(self, commands: Sequence[Command], on_replies: OnReplies) -> None:
        """Send commands with all others of this turn of the loop; they stay together. The caller counts them."""
        if not self._batch:
            asyncio.get_running_loop().call_soon(self._flush)
        self._batch.append((commands, on_replies))

    def enter(self, requests: int) -> None:
        """Count requests that begin to wait; raises when too many wait already."""
        if not self.has_room:
            raise RedisConnectionError("too many requests wait for Redis")
        self._waiting += requests

    def leave(self, requests: int) -> None:
        """Count requests that wait no more."""
        self._waiting -= requests

    async def replies(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies, error replies among them. Raises when Redis does not respond."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

        def on_replies(received: list[Any] | RedisError) -> None:
            if future.done():  # its caller was cancelled
                return
            if isinstance(received, list):
                future.set_result(received)
            else:
                # Each caller has an error of its own: a traceback grows with everyone who raises it.
                future.set_exception(type(received)(*received.args))

        self.enter(1)
        try:
            self.send(commands, on_replies)
            return await future
        finally:
            self.leave(1)

    async def close(self) -> None:
        """Close the connections; pending requests fail."""
        for connection in self._connections:
            await connection.close()

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        self._next = (self._next + 1) % CONNECTIONS
        self._connections[self._next].send(batch)


def _held_back(batch: Sequence[_Request], replicas: int) -> list[_Request]:
    """Return a batch that ends with WAIT, and whose replies are passed on only when enough replicas have its writes."""
    held: list[tuple[OnReplies, list[Any] | RedisError]] = []

    def hold(on_replies: OnReplies) -> OnReplies:
        return lambda replies: held.append((on_replies, replies))

    def release(replies: list[Any] | RedisError) -> None:
        # An error here is that of the connection, which has failed those without a reply, too.
        reached = replies[-1] if isinstance(replies, list) else replies
        for on_replies, received in held:
            if isinstance(reached, int) and reached >= replicas:
                on_replies(received)
            else:
                on_replies(reached if isinstance(reached, RedisError) else _too_few(reached, replicas))

    return [*((commands, hold(on_replies)) for commands, on_replies in batch), (_wait(replicas), release)]


def _wait(replicas: int) -> Sequence[Command]:
    """Return the commands that wait until so many replicas have everything that was written so far.

    WAIT alone waits for what its own connection has written. But a script that finds its work done (a repeated request,
    a known change) writes nothing, and what it found may be what another connection could not get confirmed. So first
    something is written that the replicas get after all of that: publishing needs no key and no disk.
    """
    return (("PUBLISH", REPLICATION_BARRIER, ""), ("WAIT", replicas, _REPLICATION_MS))


def _too_few(reached: Any, replicas: int) -> RedisTimeoutError:
    return RedisTimeoutError(f"{reached} of {replicas} replicas confirmed the write in time (REDIS_REPLICAS_ACK)")


def _pack(command: Command) -> bytes:
    """Return a command as Redis reads it; redis-py spells some names with a space, such as `CONFIG GET`."""
    name, *words = command
    packed: bytes = hiredis.pack_command((*name.split(), *words))
    return packed
