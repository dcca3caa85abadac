"""How the gateway's send path uses Redis: the interface, and the ordinary implementation.

`hot_path` has the other one, which admits many messages with one call. Both raise `Unavailable` for an outage and
`Broken` for an error that only a programmer can fix, never an error of redis-py.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import structlog
from redis.exceptions import BusyLoadingError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from wa_orchestrator.errors import Broken, OrchestratorError, Unavailable
from wa_orchestrator.gateway import replies
from wa_orchestrator.store.engine.scripts import Reply, Scripts
from wa_orchestrator.store.leases import Limited
from wa_orchestrator.store.messages.admission import (
    MOST_AT_ONCE,
    Acceptance,
    Errored,
    Rate,
    Wanted,
    admit_call,
    read_admission,
)

Part = str | int | float | bytes
Command = tuple[Part, ...]
Outcome = Acceptance | Limited
"""What Redis decided about one message."""

ADMIT: Final = "admit_messages"
#: Errors by which Redis refuses a write for the moment. Nothing was written.
_TRANSIENT: Final = (
    "READONLY", "OOM", "MISCONF", "LOADING", "MASTERDOWN", "NOREPLICAS", "BUSY", "CLUSTERDOWN", "NOAUTH", "UNKILLABLE",
)  # fmt: skip

log = structlog.get_logger(__name__)


class RedisAccess(Protocol):
    """Commands and scripts. Replies have the shapes of RESP3: a dict for HGETALL, pairs for WITHSCORES."""

    scripts: Scripts

    async def call(self, *command: Part) -> Any:
        """Run one command."""

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in their order, in one round trip."""

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Part] = ()) -> Reply:
        """Run a script."""

    async def admit(self, rate: Rate, messages: Sequence[Wanted]) -> list[Outcome | OrchestratorError]:
        """Admit messages in their order, each with its own outcome, and count each as a call against `rate`."""


class PlainRedis:
    """`RedisAccess` that calls Redis for each request."""

    def __init__(self, scripts: Scripts) -> None:
        self.scripts = scripts

    async def call(self, *command: Part) -> Any:
        """Run one command."""
        return (await self.many([command]))[0]

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in their order, in one round trip."""
        pipeline = self.scripts.redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        with translated_errors():
            return await pipeline.execute()

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Part] = ()) -> Reply:
        """Run a script."""
        with translated_errors():
            return await self.scripts.run(name, keys, args)

    async def admit(self, rate: Rate, messages: Sequence[Wanted]) -> list[Outcome | OrchestratorError]:
        """Admit messages in their order, each with its own outcome, and count each as a call against `rate`."""
        outcomes: list[Outcome | OrchestratorError] = []
        for start in range(0, len(messages), MOST_AT_ONCE):
            reply = await self.run(ADMIT, *admit_call(rate, messages[start : start + MOST_AT_ONCE]))
            outcomes += [read_outcome(each) for each in reply]
        return outcomes


def read_outcome(reply: Reply) -> Outcome | OrchestratorError:
    """Return the outcome of one message of an admission."""
    read = read_admission(reply)
    return redis_error(read.error) if isinstance(read, Errored) else read


def redis_error(text: str) -> Unavailable | Broken:
    """Return the error that a Redis error reply stands for."""
    if text.removeprefix("ERR ").startswith(_TRANSIENT):
        log.warning("queue.refused", error=text.split(" ", 1)[0])
        return replies.unavailable()
    return Broken(f"Redis replied {text}")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise what an error of the client means to the sender of a message."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise translated(error) from error


def translated(error: Exception) -> OrchestratorError:
    """Return what an error of the client means to the sender of a message."""
    if isinstance(error, ReadOnlyError | OutOfMemoryError | BusyLoadingError):  # redis-py cuts the code off their text
        log.warning("queue.refused", error=type(error).__name__)
        return replies.unavailable()
    if isinstance(error, ResponseError):
        return redis_error(str(error))
    log.warning("queue.unavailable", error=type(error).__name__)
    return replies.uncertain()
