"""Loads the Lua scripts and runs them by their digest; the only place that assembles a script."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import NoScriptError

from wa_orchestrator.errors import Broken
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.redis_line import Command, RedisLine
from wa_orchestrator.store.keys import REPLICATION_BARRIER
from wa_orchestrator.store.record_codec import read_fields

#: The Lua files by name, which is unique; a folder per subject.
FILES: Final = {path.stem: path for path in sorted((Path(__file__).parents[1] / "lua").rglob("*.lua"))}
_USES: Final = re.compile(r"^-- uses: (\w+)$", re.MULTILINE)
_NOW: Final = "return {'now', now_ms()}"

Reply = list[Any]
Argument = str | int | float | bytes
Outcome = TypeVar("Outcome")


def read_sources() -> dict[str, str]:
    """Read every script, with what it uses in front of it; the clock is added by `Scripts`."""
    parts = {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}
    whole = {name: _with_used(text, parts) for name, text in parts.items() if not name.startswith("_")}
    return whole | {"now": _NOW}


def _with_used(text: str, parts: Mapping[str, str]) -> str:
    return "\n".join([*(_with_used(parts[used], parts) for used in _USES.findall(text)), text])


class Scripts:
    """The scripts on one Redis. `clock` replaces the clock of Redis, so that a test can stop the time."""

    def __init__(self, redis: Redis, *, clock: str | None = None, sources: Mapping[str, str] | None = None) -> None:
        """Assemble every script; nothing is sent to Redis before the first call."""
        self.redis = redis
        head = FILES["_clock"].read_text(encoding="utf-8") if clock is None else clock
        self._text = {name: f"{head}\n{text}" for name, text in (sources or read_sources()).items()}
        self._digest = {name: _digest(text) for name, text in self._text.items()}
        self._is_time_held = clock is not None
        self._loading: asyncio.Task[None] | None = None

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Argument] = ()) -> Reply:
        """Run a script; its reply is a list whose first element is a word."""
        try:
            reply = await self._evaluate(name, keys, args)
        except NoScriptError:  # a restart of Redis forgets scripts
            await self.load()
            reply = await self._evaluate(name, keys, args)
        if not isinstance(reply, list) or not reply:
            raise Broken(f"script {name} answered {reply!r}")
        return reply

    async def ask(
        self, name: str, keys: Sequence[str], args: Sequence[Argument], /, **outcomes: Callable[..., Outcome]
    ) -> Outcome:
        """Run a script and return the outcome of its word: a dataclass, made of the values after the word."""
        return read_outcome(name, await self.run(name, keys, args), **outcomes)

    async def whether(self, name: str, keys: Sequence[str], args: Sequence[Argument] = (), /, **words: bool) -> bool:
        """Run a script and return what its word means."""
        reply = await self.run(name, keys, args)
        if reply[0] not in words:
            raise unexpected(name, reply)
        return words[reply[0]]

    async def each(self, command: Callable[[Pipeline, str], object], keys: Iterable[str]) -> list[Any]:
        """Return the replies to one command about each of these keys, in one round trip."""
        pipe = self.redis.pipeline(transaction=False)
        for key in keys:
            command(pipe, key)
        return await pipe.execute()

    async def confirmed(self) -> None:
        """Return when enough replicas have everything that was written so far, for an answer that is only read.

        Where nobody asked for replicas (`REDIS_REPLICAS_ACK`), at once.
        """
        if isinstance(self.redis, LineClient) and self.redis.line.replicas:
            await self.redis.publish(REPLICATION_BARRIER, "")

    async def now_ms(self) -> int:
        """Return Redis' own time, which is the time of every lease and pause."""
        if self._is_time_held:
            reply = await self.run("now", [])
            return int(reply[1])
        return _whole_ms(await self.redis.time())  # a script costs Redis several times as much

    async def now_and(self, reads: Sequence[Command]) -> tuple[int, list[Any]]:
        """Return Redis' own time and the replies to reads, as they come from Redis, in one round trip."""
        if not self._is_time_held:
            time, *replies = await self._replies([("TIME",), *reads])
            return _whole_ms(time), replies
        commands = [self.command("now", [], []), *reads]
        try:
            (_, now_ms), *replies = await self._replies(commands)
        except NoScriptError:
            await self.load()
            (_, now_ms), *replies = await self._replies(commands)
        return int(now_ms), replies

    async def _replies(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies to commands; raises if one of them is an error."""
        replies = await self.line.replies(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    @property
    def line(self) -> RedisLine:
        """The line of the client, for callers that need neither redis-py nor a task."""
        if not isinstance(self.redis, LineClient):
            raise Broken("the client has no line")
        return self.redis.line

    async def ping(self) -> None:
        await self.redis.ping()

    async def load(self) -> None:
        """Load all scripts. Callers at the same time share one load: after a restart of Redis all miss them at once."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())
        await asyncio.shield(self._loading)

    async def _load(self) -> None:
        try:
            pipe = self.redis.pipeline(transaction=False)
            for text in self._text.values():
                pipe.script_load(text)
            await pipe.execute()
        finally:
            self._loading = None

    def command(self, name: str, keys: Sequence[str], args: Sequence[Argument]) -> tuple[Argument, ...]:
        """Return the command that runs a loaded script, for callers that use the line."""
        return ("EVALSHA", self._digest[name], len(keys), *keys, *args)

    def whole_command(self, name: str, keys: Sequence[str], args: Sequence[Argument]) -> tuple[Argument, ...]:
        """Return the command with the script's text: longer, and understood also by a Redis that has forgotten it."""
        return ("EVAL", self._text[name], len(keys), *keys, *args)

    async def _evaluate(self, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        if not isinstance(self.redis, LineClient):
            return await self.redis.evalsha(self._digest[name], len(keys), *keys, *args)
        # Past redis-py, which has nothing to add to a script's reply.
        reply = (await self.redis.line.replies([self.command(name, keys, args)]))[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


def _whole_ms(time: Sequence[Any]) -> int:
    """Return an instant that Redis tells in seconds and microseconds."""
    seconds, micros = time
    return 1000 * int(seconds) + int(micros) // 1000


def _digest(text: str) -> str:
    """Return the digest that Redis computes itself; it is an address, not a protection."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def unexpected(name: str, reply: Reply) -> Broken:
    """Return the error for a reply that the wrapper does not know: script and wrapper do not match."""
    return Broken(f"script {name} answered {reply!r}, which its wrapper does not know")


def read_outcome(name: str, reply: Reply, /, **outcomes: Callable[..., Outcome]) -> Outcome:
    if reply[0] not in outcomes:
        raise unexpected(name, reply)
    outcome = outcomes[reply[0]]
    return outcome(*read_fields(outcome, reply[1:]))
