"""Facts about the archive that all processes share: which it is, whether it works, when erased data left the AOF."""

from contextlib import suppress
from typing import Any

from redis.exceptions import ResponseError

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


async def identity(scripts: Scripts) -> str:
    """Return the identity of the archive in use; '' while nothing was archived."""
    return str(await scripts.redis.get(keys.ARCHIVE) or "")


async def claim(scripts: Scripts, archive_id: str) -> bool:
    """Make an archive the one in use, unless there is one. Return whether it is."""
    await scripts.redis.set(keys.ARCHIVE, archive_id, nx=True)
    return await identity(scripts) == archive_id


async def replace(scripts: Scripts, old_id: str, new_id: str) -> bool:
    """Make another archive the one in use, if `old_id` still is. The leader alone does."""
    if await identity(scripts) != old_id:
        return False
    await scripts.redis.set(keys.ARCHIVE, new_id)
    return True


async def set_failing(scripts: Scripts, code: str) -> None:
    """Record why nothing can be moved to the archive, and since when: the first time counts."""
    await scripts.redis.set(keys.ARCHIVE_FAILING, f"{await scripts.now_ms()} {code}", nx=True)


async def set_working(scripts: Scripts) -> None:
    await scripts.redis.delete(keys.ARCHIVE_FAILING)


async def failing(scripts: Scripts) -> tuple[int, str] | None:
    """Return since when nothing can be moved to the archive, in ms, and why; None if it works."""
    found: Any = await scripts.redis.get(keys.ARCHIVE_FAILING)
    if not found:
        return None
    since_ms, _, code = found.partition(" ")
    return int(since_ms), code


async def rewritten_at(scripts: Scripts) -> int:
    """Return when the AOF was last rewritten for the sake of what was erased, in ms; 0 for never."""
    return int(await scripts.redis.get(keys.REWRITTEN) or 0)


async def rewrite(scripts: Scripts) -> None:
    """Rewrite the AOF, so that what was erased leaves the disk of Redis.

    The mark is set first: a Redis that does not allow it (a hosted one) is not asked again at once.
    """
    await scripts.redis.set(keys.REWRITTEN, await scripts.now_ms())
    with suppress(ResponseError):  # under way already, or not allowed
        await scripts.redis.bgrewriteaof()
