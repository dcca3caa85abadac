"""Credentials that follow the worker: per session the newest whole copy and the change sets after it, all sealed."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from redis.client import NEVER_DECODE

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.outcomes import Fenced

_LENGTH: Final = struct.Struct(">I")
#: A worker sends a copy long before; one that was taken over is made to, so that its list does not grow for ever.
MOST_CHANGES: Final = 5_000
#: As long as the longest copy with its longest change: after so much a worker has sent a copy by itself.
MOST_CHANGE_BYTES: Final = 36 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stored:
    """It is stored."""


@dataclass(frozen=True, slots=True)
class Known:
    """It was stored before, or something newer was."""


@dataclass(frozen=True, slots=True)
class CopyNeeded:
    """What comes before it is not here, or too many changes are: a whole copy is needed."""


@dataclass(frozen=True, slots=True, repr=False)
class StoredCredentials:
    """What a worker of `epoch` has stored; the copy has the number `first`, each change the next one."""

    epoch: int
    first: int
    copy: bytes
    changes: list[bytes]

    @property
    def newest(self) -> int:
        """The number of the newest change."""
        return self.first + len(self.changes)


async def put_copy(
    scripts: Scripts, session_id: str, *, epoch: int, number: int, copy: bytes
) -> Stored | Known | Fenced:
    """Replace what is stored by a whole copy."""
    names = [keys.session(session_id), keys.credentials(session_id)]
    args: list[Argument] = [epoch, number, copy]
    return await scripts.ask("put_credentials_copy", names, args, stored=Stored, known=Known, fenced=Fenced)


async def add_change(
    scripts: Scripts, session_id: str, *, epoch: int, number: int, change: bytes, most: int = MOST_CHANGES
) -> Stored | Known | CopyNeeded | Fenced:
    """Append a change set, unless there are `most` or `MOST_CHANGE_BYTES` already: then a whole copy is needed."""
    names = [keys.session(session_id), keys.credentials(session_id)]
    args: list[Argument] = [epoch, number, change, most, MOST_CHANGE_BYTES]
    return await scripts.ask(
        "add_credentials_change", names, args, stored=Stored, known=Known, gap=CopyNeeded, fenced=Fenced
    )


async def owner(scripts: Scripts, session_id: str) -> int | None:
    """Return the epoch of the worker that stored what is there; None if there is nothing."""
    head: Any = await scripts.redis.lindex(keys.credentials(session_id), 0)
    return int(head.split()[0]) if head else None


async def read(scripts: Scripts, session_id: str) -> StoredCredentials | None:
    """Return all that is stored of one instant; None if there is nothing."""
    # Never decoded: sealed bytes are no text.
    found: Any = await scripts.redis.execute_command(  # type: ignore[no-untyped-call]
        "LRANGE", keys.credentials(session_id), 0, -1, **{NEVER_DECODE: True}
    )
    if not found:
        return None
    head, copy, *changes = found
    epoch, first = head.split()
    return StoredCredentials(int(epoch), int(first), copy, changes)


async def put_back(scripts: Scripts, session_id: str, stored: StoredCredentials) -> None:
    """Store again what was taken to the trash. No worker may run."""
    key = keys.credentials(session_id)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.delete(key)
        pipe.rpush(key, f"{stored.epoch} {stored.first}", stored.copy, *stored.changes)
        await pipe.execute()


def pack(stored: StoredCredentials) -> bytes:
    """Return everything as the bytes of a file."""
    return f"{stored.epoch} {stored.first}\n".encode() + framed([stored.copy, *stored.changes])


def unpack(content: bytes) -> StoredCredentials:
    """Read what `pack` wrote. Raises ValueError for anything else."""
    head, _, rest = content.partition(b"\n")
    epoch, first = map(int, head.split())
    parts, at = [], 0
    while at < len(rest):
        length = int.from_bytes(rest[at : (begin := at + _LENGTH.size)])
        at = begin + length
        parts.append(rest[begin:at])
    if at != len(rest) or not parts:
        raise ValueError("cut off")
    return StoredCredentials(epoch, first, parts[0], parts[1:])


def framed(parts: Iterable[bytes]) -> bytes:
    """Return parts as one, each after its length."""
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


async def forget(scripts: Scripts, session_id: str) -> None:
    """Delete what is stored: the session's credentials were discarded or exchanged. No worker may run."""
    await scripts.redis.delete(keys.credentials(session_id))
