"""Redis for the hot path: what many requests ask within one turn of the loop travels in one write.

No batch waits for the one before it, so Redis always has work and shares each fsync among all that is there. (With one
batch at a time per connection both sides took turns at waiting, and this process was idle most of the time.) There are
a few connections, because Redis reads only 16 KB of each before it syncs. redis-py opens them (TLS, passwords, sockets)
and hiredis reads them; between the two there is nothing per command but a tuple and a future.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

import hiredis
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from wa_orchestrator.errors import Broken, Unavailable
from wa_orchestrator.store.engine.scripts import Reply, Scripts

Part = str | int | float | bytes
Command = tuple[Part, ...]


class Waiter(Protocol):
    """Where answers go: a future, or what behaves like one."""

    def done(self) -> bool:
        """Whether nobody waits for them any more."""
        ...

    def set_result(self, answers: list[Any], /) -> None:
        """Take the answers."""
        ...

    def set_exception(self, error: Any, /) -> None:
        """Take an error in their place."""
        ...


_Question = tuple[Sequence[Command], Waiter]
"""Commands that stay together, and who waits for their answers."""
LINES: Final = 4
#: Calls that may wait before new ones are turned away; a queue without an end helps nobody.
MOST_WAITING: Final = 20_000
_CHUNK: Final = 1 << 16
#: What Redis says when it cannot keep a write just now. Nothing was written: waiting may cure it.
_PASSING: Final = (
    "READONLY", "OOM", "MISCONF", "LOADING", "MASTERDOWN", "NOREPLICAS", "BUSY", "CLUSTERDOWN", "NOAUTH", "UNKILLABLE",
)  # fmt: skip

#: Its stub asks for a tuple of one; it takes any.
_pack: Any = hiredis.pack_command

log = structlog.get_logger(__name__)


def unavailable() -> Unavailable:
    """The error for every way in which Redis can refuse."""
    return Unavailable(
        "QUEUE_UNAVAILABLE",
        "The queue cannot take messages just now, and nothing was accepted. Try again with the same Idempotency-Key.",
        retryAfterS=2,
    )


def uncertain() -> Unavailable:
    """The error for every way in which Redis can go silent: what it was asked may have been done."""
    return Unavailable(
        "QUEUE_UNAVAILABLE",
        "The queue does not answer, and whether it took this in is not known. Try again with the same Idempotency-Key: "
        "with one, nothing is ever taken in twice.",
        retryAfterS=2,
    )


class _Trip:
    """Commands that were sent together, and the answers that have come back."""

    __slots__ = ("answers", "count", "gives_up_at", "waiter")

    def __init__(self, count: int, waiter: Waiter, gives_up_at: float) -> None:
        self.count = count
        self.waiter = waiter
        self.gives_up_at = gives_up_at
        self.answers: list[Any] = []


class Line:
    """One connection on which questions follow one another without waiting; answers come back in the same order.

    When it breaks, or is silent for too long, everything that waits for an answer fails, and the next question opens
    it again. Whether Redis has acted on what failed is not known: that is what idempotency keys are for.
    """

    def __init__(self, redis: Redis, answer_s: float) -> None:
        pool = redis.connection_pool
        # RESP2 has one shape for a list, whatever the server; redis-py's own default differs by version.
        self._connection: Any = pool.connection_class(**{**pool.connection_kwargs, "protocol": 2})
        self._answer_s = answer_s
        self._backlog: list[_Question] = []
        self._trips: deque[_Trip] = deque()
        self._work: asyncio.Task[None] | None = None
        self._is_open = False
        self._watch: asyncio.TimerHandle | None = None

    def carry(self, batch: Sequence[_Question]) -> None:
        """Send a batch now, or as soon as the connection is open."""
        if self._is_open:
            self._write(batch)
            return
        self._backlog += batch
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._live())

    async def close(self) -> None:
        """Forget the connection; what waits for an answer fails."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    def _write(self, batch: Sequence[_Question]) -> None:
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._answer_s
        packed = []
        for commands, waiter in batch:
            packed += [_pack(command) for command in commands]
            self._trips.append(_Trip(len(commands), waiter, gives_up_at))
        self._connection._writer.write(b"".join(packed))
        if self._watch is None:
            self._watch = loop.call_later(self._answer_s, self._look)

    def _look(self) -> None:
        """Give the connection up when its oldest question has waited for too long."""
        self._watch = None
        if not self._trips or self._work is None:
            return
        left_s = self._trips[0].gives_up_at - asyncio.get_running_loop().time()
        if left_s > 0:
            self._watch = asyncio.get_running_loop().call_later(left_s, self._look)
        else:
            self._work.cancel()

    async def _live(self) -> None:
        """Open the connection, and read answers until it ends."""
        error: BaseException = TimeoutError("Redis did not answer in time")
        try:
            async with asyncio.timeout(self._answer_s):
                await self._connection.connect()
            self._is_open = True
            backlog, self._backlog = self._backlog, []
            self._write(backlog)
            await self._read()
        except asyncio.CancelledError:
            pass  # given up or closed
        except (RedisError, OSError, TimeoutError, hiredis.ProtocolError) as broken:
            error = broken
        finally:
            self._is_open = False
            self._work = None
            self._fail(error)
            await self._connection.disconnect(nowait=True)
            if self._backlog:  # asked while the connection was being closed
                self.carry([])

    async def _read(self) -> None:
        replies = hiredis.Reader(encoding="utf-8", errors="replace")
        while chunk := await self._connection._reader.read(_CHUNK):
            replies.feed(chunk)
            while (reply := replies.gets()) is not False:
                self._hand_on(reply)
        raise ConnectionResetError("Redis closed the connection")

    def _hand_on(self, reply: Any) -> None:
        """Give an answer to the oldest question; one that has all of its answers is told them."""
        trip = self._trips[0]
        trip.answers.append(reply)
        if len(trip.answers) == trip.count:
            self._trips.popleft()
            if not trip.waiter.done():
                trip.waiter.set_result(trip.answers)

    def _fail(self, error: BaseException) -> None:
        waiters = [*(trip.waiter for trip in self._trips), *(waiter for _, waiter in self._backlog)]
        self._trips.clear()
        self._backlog = []
        if waiters:
            log.warning("queue.unavailable", calls=len(waiters), error=type(error).__name__)
        for waiter in waiters:
            if not waiter.done():
                failure = uncertain()
                failure.__cause__ = error
                waiter.set_exception(failure)


class Batcher:
    """Collects the calls of a turn of the loop. Fails closed: without an answer there is an `Unavailable`."""

    def __init__(self, scripts: Scripts, *, answer_s: float = 3.0) -> None:
        self.scripts = scripts
        self._answer_s = answer_s
        self._lines = [Line(scripts.redis, answer_s) for _ in range(LINES)]
        self._turn = 0
        self._asked = 0
        self._waiting: list[_Question] = []

    async def call(self, *command: Part) -> Any:
        """Ask Redis one thing."""
        return checked((await self._ask([command]))[0])

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """Ask several things, which are answered in their order."""
        return [checked(answer) for answer in await self._ask(commands)] if commands else []

    async def run(self, name: str, keys: Sequence[str], args: Sequence[str | int | float] = ()) -> Reply:
        """Run a script."""
        command: Command = ("EVALSHA", self.scripts.digest(name), len(keys), *keys, *args)
        answer = (await self._ask([command]))[0]
        if is_unknown_script(answer):  # a restart of Redis forgets scripts
            await self.load()
            answer = (await self._ask([command]))[0]
        return _words(name, checked(answer))

    @property
    def has_room(self) -> bool:
        """Whether another call may wait."""
        return self._asked < MOST_WAITING

    def enter(self, calls: int) -> None:
        """Count calls that begin to wait; raises when too many wait already."""
        if not self.has_room:
            raise unavailable()
        self._asked += calls

    def leave(self, calls: int) -> None:
        """Count calls that wait no more."""
        self._asked -= calls

    def send(self, commands: Sequence[Command], waiter: Waiter) -> None:
        """Let commands travel with whatever else is asked in this turn of the loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._depart)
        self._waiting.append((commands, waiter))

    async def load(self) -> None:
        """Teach Redis all scripts."""
        try:
            async with asyncio.timeout(self._answer_s):
                await self.scripts.load()
        except (RedisError, OSError, TimeoutError) as error:
            raise unavailable() from error

    async def close(self) -> None:
        """Close the lines."""
        for line in self._lines:
            await line.close()

    async def _ask(self, commands: Sequence[Command]) -> list[Any]:
        self.enter(1)
        try:
            answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
            self.send(commands, answers)
            return await answers
        finally:
            self.leave(1)

    def _depart(self) -> None:
        batch, self._waiting = self._waiting, []
        self._turn = (self._turn + 1) % LINES
        self._lines[self._turn].carry(batch)


def is_unknown_script(answer: Any) -> bool:
    """Whether Redis has not heard of the script, and so has done nothing."""
    return isinstance(answer, hiredis.ReplyError) and str(answer).startswith("NOSCRIPT")


def checked(answer: Any) -> Any:
    """Give an answer, or raise what its error means."""
    if isinstance(answer, hiredis.ReplyError):
        raise refusal(str(answer)) from answer
    return answer


def refusal(text: str) -> Unavailable | Broken:
    """Say what an error of Redis means."""
    if text.removeprefix("ERR ").startswith(_PASSING):
        log.warning("queue.refused", error=text.split(" ", 1)[0])
        return unavailable()
    return Broken(f"Redis answered {text}")


def _words(name: str, reply: Any) -> Reply:
    if not isinstance(reply, list) or not reply:
        raise Broken(f"script {name} answered {reply!r}")
    return reply
