"""redis-py's commands over the Redis line.

redis-py knows how a command is spelled and what its reply means; the line sends it. Commands that wait, or that belong
to one connection (blocking reads, WATCH, pub/sub), take a connection of redis-py's pool, as they always do.
"""

from collections.abc import Mapping
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.client import EMPTY_RESPONSE, NEVER_DECODE
from redis.exceptions import ExecAbortError, ResponseError

from wa_orchestrator.store.engine.redis_line import RESPONSE_S, RedisLine

#: Commands that may wait in Redis: everybody else's would wait behind them.
_WAITING: Final = frozenset({"BLPOP", "BRPOP", "BLMOVE", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "WAIT", "WAITAOF"})
_MAY_BLOCK: Final = frozenset({"XREAD", "XREADGROUP"})
_BLOCK: Final = frozenset({"BLOCK", b"BLOCK"})


class LineClient(Redis):
    """A redis-py client whose commands and pipelines share a line. Signatures are those of redis-py."""

    def __init__(self, *args: Any, response_s: float = RESPONSE_S, replicas: int = 0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.line = RedisLine(self.connection_pool, response_s, replicas)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run one command."""
        if _takes_a_connection(args, options):
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        reply = (await self.line.replies([args]))[0]
        return _read_reply(self.response_callbacks, args[0], reply, options)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> "LinePipeline":  # noqa: FBT001, FBT002
        """Return a pipeline whose commands go out together; those of a transaction are executed together, too."""
        return LinePipeline(self, transaction, shard_hint)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001
        """Close the line and the pool."""
        await self.line.close()
        await super().aclose(close_connection_pool)


class LinePipeline(Pipeline):
    """A pipeline over the line. After WATCH it is redis-py's own."""

    def __init__(self, client: LineClient, transaction: bool, shard_hint: str | None) -> None:  # noqa: FBT001
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._line = client.line

    async def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002
        """Run the commands; their replies, in their order. With an error reply it raises, unless it is told not to."""
        if self.watching or self.connection is not None:
            return await super().execute(raise_on_error)
        stack, self.command_stack = self.command_stack, []
        if not stack:
            return []
        commands = [args for args, _ in stack]
        if self.is_transaction:
            replies = _executed(await self._line.replies([("MULTI",), *commands, ("EXEC",)]))
        else:
            replies = await self._line.replies(commands)
        if raise_on_error:
            self.raise_first_error(stack, replies)
        return [
            reply if isinstance(reply, Exception) else _read_reply(self.response_callbacks, args[0], reply, options)
            for (args, options), reply in zip(stack, replies, strict=True)
        ]


def _takes_a_connection(args: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
    if args[0] in _MAY_BLOCK:
        return not _BLOCK.isdisjoint(args)
    return args[0] in _WAITING or NEVER_DECODE in options


def _read_reply(callbacks: Mapping[Any, Any], name: str | bytes, reply: Any, options: Mapping[str, Any]) -> Any:
    """Return what a reply means to redis-py; raises for an error reply."""
    if isinstance(reply, Exception):
        if EMPTY_RESPONSE in options and isinstance(reply, ResponseError):
            return options[EMPTY_RESPONSE]
        raise reply
    read = callbacks.get(name)
    if read is None:
        return reply
    return read(reply, **{option: value for option, value in options.items() if option not in _NOT_FOR_CALLBACKS})


#: Options for redis-py itself.
_NOT_FOR_CALLBACKS: Final = frozenset({EMPTY_RESPONSE, "keys"})


def _executed(replies: list[Any]) -> list[Any]:
    """Return the replies of a transaction's commands; raises if Redis executed none of them."""
    *queued, executed = replies
    if isinstance(executed, Exception):
        refusal = next((each for each in queued if isinstance(each, Exception)), executed)
        raise refusal from (executed if isinstance(executed, ExecAbortError) else None)
    return list(executed)
