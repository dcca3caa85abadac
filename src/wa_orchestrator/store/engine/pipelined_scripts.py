"""Pipelines the script calls of one turn of the event loop.

A hundred releases at once cost one round trip and one connection, and each caller still gets its own reply.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError

from wa_orchestrator.store.engine.scripts import Argument, Scripts

_Call = tuple[str, Sequence[str], Sequence[Argument], "asyncio.Future[Any]"]


class PipelinedScripts(Scripts):
    """Scripts whose calls are pipelined. A call that fails affects no other, unless Redis is unavailable."""

    def __init__(self, scripts: Scripts) -> None:
        """Share the texts and the client of `scripts`."""
        self.redis = scripts.redis
        self._text = scripts._text
        self._digest = scripts._digest
        self._calls: list[_Call] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def _evaluate(self, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._calls.append((name, keys, args, answer))
        if len(self._calls) == 1:
            loop.call_soon(self._start)
        return await answer

    def _start(self) -> None:
        calls, self._calls = self._calls, []
        task = asyncio.get_running_loop().create_task(self._send(calls))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _send(self, calls: list[_Call]) -> None:
        try:
            replies = await self._pipeline(calls)
            # One load for all of them: after a restart of Redis every call of a batch misses its script at once.
            missing = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
            for name in {calls[at][0] for at in missing}:
                await self.redis.script_load(self._text[name])
            again = await self._pipeline([calls[at] for at in missing]) if missing else []
            for at, reply in zip(missing, again, strict=True):
                replies[at] = reply
        except Exception as error:  # whatever it was, every caller must hear of it
            replies = [error] * len(calls)
        for (_, _, _, answer), reply in zip(calls, replies, strict=True):
            if not answer.done() and isinstance(reply, Exception):
                answer.set_exception(reply)
            elif not answer.done():
                answer.set_result(reply)

    async def _pipeline(self, calls: Sequence[_Call]) -> list[Any]:
        async with self.redis.pipeline(transaction=False) as pipe:
            for name, keys, args, _ in calls:
                pipe.evalsha(self._digest[name], len(keys), *keys, *args)
            replies: list[Any] = await pipe.execute(raise_on_error=False)
        return replies
