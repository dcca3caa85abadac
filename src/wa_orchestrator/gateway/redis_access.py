"""How the gateway's send path uses Redis: the interface, and the ordinary implementation on redis-py's pool.

`hot_path` has the other implementation. Both raise `Unavailable` for an outage and `Broken` for an error that only a
programmer can fix, never an error of redis-py.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
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

#: How long Redis may take to respond before a request is answered with 503.
RESPONSE_S: Final = 3.0
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

    async def close(self) -> None:
        """Close the connections."""


class PooledRedis:
    """`RedisAccess` with one connection of a pool per call."""

    def __init__(self, scripts: Scripts, *, response_s: float = RESPONSE_S) -> None:
        pool = scripts.redis.connection_pool
        # No retries: an admission whose response was lost may have happened, and a second one would queue it twice.
        options = {**pool.connection_kwargs, "socket_timeout": response_s, "retry": Retry(NoBackoff(), 0)}
        self._redis = Redis.from_pool(BlockingConnectionPool(connection_class=pool.connection_class, **options))
        self.scripts = copy.copy(scripts)
        self.scripts.redis = self._redis

    async def call(self, *command: Part) -> Any:
        """Run one command."""
        return (await self.many([command]))[0]

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in their order, in one round trip."""
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        with _translated_errors():
            return await pipeline.execute()

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Part] = ()) -> Reply:
        """Run a script."""
        with _translated_errors():
            return await self.scripts.run(name, keys, args)

    async def admit(self, rate: Rate, messages: Sequence[Wanted]) -> list[Outcome | OrchestratorError]:
        """Admit messages in their order, each with its own outcome, and count each as a call against `rate`."""
        outcomes: list[Outcome | OrchestratorError] = []
        for start in range(0, len(messages), MOST_AT_ONCE):
            reply = await self.run(ADMIT, *admit_call(rate, messages[start : start + MOST_AT_ONCE]))
            outcomes += [read_outcome(each) for each in reply]
        return outcomes

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()


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
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except (ReadOnlyError, OutOfMemoryError, BusyLoadingError) as error:  # redis-py cuts the code off their text
        log.warning("queue.refused", error=type(error).__name__)
        raise replies.unavailable() from error
    except ResponseError as error:
        raise redis_error(str(error)) from error
    except (RedisError, OSError, TimeoutError) as error:
        log.warning("queue.unavailable", error=type(error).__name__)
        raise replies.uncertain() from error
