"""Redis for the hot path: what many requests ask within one turn of the loop travels in one write.

At most `LINES` batches are on their way at once; what is asked meanwhile waits and makes the next batch larger, so the
server shares its fsync among all of them. redis-py opens the connections (TLS, passwords, sockets) and hiredis reads
them; between the two there is nothing per command but a tuple and a future.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import hiredis
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from wa_orchestrator.errors import Broken, Unavailable
from wa_orchestrator.store.scripts import Reply, Scripts

Part = str | int | float | bytes
Command = tuple[Part, ...]
_Question = tuple[Sequence[Command], "asyncio.Future[list[Any]]"]
"""Commands that stay together, and where their answers go."""
LINES: Final = 4
#: Calls that may wait before new ones are turned away; a queue without an end helps nobody.
MOST_WAITING: Final = 20_000
_MOST_IN_BATCH: Final = 256
_CHUNK: Final = 1 << 16
#: What Redis says when it cannot keep a write just now. Nothing was written: waiting may cure it.
_PASSING: Final = (
    "READONLY", "OOM", "MISCONF", "LOADING", "MASTERDOWN", "NOREPLICAS", "BUSY", "CLUSTERDOWN", "NOAUTH", "UNKILLABLE",
)  # fmt: skip

#: Its stub asks for a tuple of one; it takes any.
_pack: Any = hiredis.pack_command

log = structlog.get_logger(__name__)


def unavailable() -> Unavailable:
    """The error for every way in which Redis can be away."""
    return Unavailable(
        "QUEUE_UNAVAILABLE",
        "The queue cannot take messages just now, and nothing was accepted. Try again with the same Idempotency-Key.",
        retryAfterS=2,
    )


class Line:
    """One connection, one batch at a time. A broken one is opened again by the next batch."""

    def __init__(self, redis: Redis) -> None:
        pool = redis.connection_pool
        # RESP2 has one shape for a list, whatever the server; redis-py's own default differs by version.
        self._connection: Any = pool.connection_class(**{**pool.connection_kwargs, "protocol": 2})
        self._replies = hiredis.Reader(encoding="utf-8", errors="replace")

    async def exchange(self, batch: bytes, count: int) -> list[Any]:
        """Send a batch and give its answers, errors of single commands among them as values."""
        connection = self._connection
        if not connection.is_connected or connection._reader.at_eof():
            await self.close()
            await connection.connect()
        connection._writer.write(batch)
        answers: list[Any] = []
        while len(answers) < count:
            chunk = await connection._reader.read(_CHUNK)
            if not chunk:
                raise ConnectionResetError("Redis closed the connection")
            self._replies.feed(chunk)
            while (reply := self._replies.gets()) is not False:
                answers.append(reply)
        return answers

    async def close(self) -> None:
        """Forget the connection and everything half read."""
        self._replies = hiredis.Reader(encoding="utf-8", errors="replace")
        await self._connection.disconnect(nowait=True)


class Batcher:
    """Collects calls and carries them over a few lines. Fails closed: without an answer there is an `Unavailable`."""

    def __init__(self, scripts: Scripts, *, answer_s: float = 3.0) -> None:
        self.scripts = scripts
        self._answer_s = answer_s
        self._free = [Line(scripts.redis) for _ in range(LINES)]
        self._waiting: list[_Question] = []
        self._trips: set[asyncio.Task[None]] = set()
        self._is_planned = False

    async def call(self, *command: Part) -> Any:
        """Ask Redis one thing."""
        return _checked((await self._ask([command]))[0])

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """Ask several things, which are answered in their order."""
        return [_checked(answer) for answer in await self._ask(commands)] if commands else []

    async def run(self, name: str, keys: Sequence[str], args: Sequence[str | int | float] = ()) -> Reply:
        """Run a script."""
        return (await self.run_many(name, [(keys, args)]))[0]

    async def run_many(
        self, name: str, calls: Sequence[tuple[Sequence[str], Sequence[str | int | float]]]
    ) -> list[Reply]:
        """Run a script several times, in this order and on one line."""
        digest = self.scripts.digest(name)
        commands: list[Command] = [("EVALSHA", digest, len(keys), *keys, *args) for keys, args in calls]
        answers = await self._ask(commands)
        forgotten = [at for at, answer in enumerate(answers) if _is_unknown_script(answer)]
        if forgotten:  # a restart of Redis forgets scripts; only what did not run is asked again
            await self._load()
            again = await self._ask([commands[at] for at in forgotten])
            for at, answer in zip(forgotten, again, strict=True):
                answers[at] = answer
        return [_words(name, _checked(answer)) for answer in answers]

    async def close(self) -> None:
        """Let the last batches end and close the lines."""
        if self._trips:
            await asyncio.wait(self._trips, timeout=self._answer_s)
        for line in self._free:
            await line.close()

    def _ask(self, commands: Sequence[Command]) -> asyncio.Future[list[Any]]:
        if len(self._waiting) >= MOST_WAITING:
            raise unavailable()
        answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((commands, answers))
        self._plan()
        return answers

    def _plan(self) -> None:
        if self._free and self._waiting and not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._depart)

    def _depart(self) -> None:
        self._is_planned = False
        if not self._free or not self._waiting:
            return
        batch, self._waiting = self._waiting[:_MOST_IN_BATCH], self._waiting[_MOST_IN_BATCH:]
        trip = asyncio.get_running_loop().create_task(self._carry(self._free.pop(), batch))
        self._trips.add(trip)
        trip.add_done_callback(self._trips.discard)
        self._plan()

    async def _carry(self, line: Line, batch: Sequence[_Question]) -> None:
        try:
            packed = [_pack(command) for commands, _ in batch for command in commands]
            async with asyncio.timeout(self._answer_s):
                answers = await line.exchange(b"".join(packed), len(packed))
        except (RedisError, OSError, TimeoutError, hiredis.ProtocolError) as error:
            log.warning("queue.unavailable", calls=len(batch), error=type(error).__name__)
            await line.close()
            _fail(batch, error)
        except BaseException as error:
            await line.close()
            _fail(batch, error)
            raise
        else:
            _deliver(batch, answers)
        finally:
            self._free.append(line)
            self._plan()

    async def _load(self) -> None:
        try:
            async with asyncio.timeout(self._answer_s):
                await self.scripts.load()
        except (RedisError, OSError, TimeoutError) as error:
            raise unavailable() from error


def _deliver(batch: Sequence[_Question], answers: list[Any]) -> None:
    start = 0
    for commands, future in batch:
        end = start + len(commands)
        if not future.done():
            future.set_result(answers[start:end])
        start = end


def _fail(batch: Sequence[_Question], error: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            failure = unavailable()
            failure.__cause__ = error
            future.set_exception(failure)


def _is_unknown_script(answer: Any) -> bool:
    return isinstance(answer, hiredis.ReplyError) and str(answer).startswith("NOSCRIPT")


def _checked(answer: Any) -> Any:
    """Give an answer, or raise what its error means."""
    if not isinstance(answer, hiredis.ReplyError):
        return answer
    if str(answer).removeprefix("ERR ").startswith(_PASSING):
        log.warning("queue.refused", error=str(answer).split(" ", 1)[0])
        raise unavailable() from answer
    raise Broken(f"Redis answered {answer}") from answer


def _words(name: str, reply: Any) -> Reply:
    if not isinstance(reply, list) or not reply:
        raise Broken(f"script {name} answered {reply!r}")
    return reply
