"""Facts about the archive that all processes share: which one it is, and when erased data last left the AOF."""

from contextlib import suppress

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
