"""Troubles of the server itself: its disk, Redis, archive, backups and pool of proxies."""

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import (
    ArchiveFailing,
    BackupEnded,
    DiskLow,
    EventType,
    Instant,
    LowInventory,
    Payload,
    RedisEmptied,
    RedisMemoryLow,
)
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.engine import durability
from wa_orchestrator.store.events.lasting_troubles import FoundTrouble, Troubles
from wa_orchestrator.store.messages import archive_marks

_LEAST_SHARE: Final = 0.05
_LEAST_BYTES: Final = 2 * 1024**3
#: What is low is over only when there is so much more room: free space goes up and down.
_OVER: Final = 1.2


def is_disk_low(total_bytes: int, free_bytes: int) -> bool:
    """Whether a disk is nearly full: under 5 percent, or 2 GiB of a large one, are free."""
    return free_bytes < min(_LEAST_SHARE * total_bytes, _LEAST_BYTES)


async def find(context: Context, known: Collection[str], patience_ms: int) -> dict[str, FoundTrouble]:
    """Find what is wrong now; what is `known` is over only when it is clearly so.

    What may mend itself is left out before `patience_ms`.
    """
    return {
        **await _low_disks(context, known),
        **await _low_redis_memory(context, known),
        **await _emptied_redis(context),
        **await _failing_archive(context, patience_ms),
        **await _failed_backups(context),
        **await _proxy_pool(context),
    }


async def _low_disks(context: Context, known: Collection[str]) -> Troubles:
    settings, found = context.settings, {}
    for directory in sorted({settings.data_dir.absolute(), settings.sessions_dir.absolute()}):
        name = f"disk:{directory}"
        usage = await asyncio.to_thread(shutil.disk_usage, _existing(directory))
        if is_disk_low(usage.total, round(usage.free / _OVER) if name in known else usage.free):
            found[name] = FoundTrouble(EventType.DISK_LOW, DiskLow(str(directory), usage.free))
    return found


def _existing(directory: Path) -> Path:
    return next(each for each in (directory, *directory.parents) if each.exists())


async def _low_redis_memory(context: Context, known: Collection[str]) -> Troubles:
    used, most = await durability.memory_in_use(context.scripts)
    if not durability.is_memory_low(round(used * _OVER) if "redis:memory" in known else used, most):
        return {}
    return {"redis:memory": FoundTrouble(EventType.REDIS_MEMORY_LOW, RedisMemoryLow(used, most))}


async def _emptied_redis(context: Context) -> Troubles:
    """Credentials on disk and no session in Redis. `installation_check` tells of it."""
    if await records.has_sessions(context.scripts):
        return {}
    linked = await credential_files.linked_sessions(context.settings)
    return {"redis:emptied": _told(EventType.REDIS_EMPTIED, RedisEmptied(len(linked)))} if linked else {}


async def _failing_archive(context: Context, patience_ms: int) -> Troubles:
    failing = await archive_marks.failing(context.scripts)
    if failing is None or failing[0] > await context.scripts.now_ms() - patience_ms:
        return {}
    since_ms, code = failing
    return {"archive": FoundTrouble(EventType.ARCHIVE_FAILING, ArchiveFailing(code, Instant(since_ms)))}


async def _failed_backups(context: Context) -> Troubles:
    """The newest backup failed, or has no second copy. The backup itself told of it."""
    found = {}
    newest = next((each for each in await runs.latest(context.scripts) if each.kind == "backup"), None)
    if newest is not None and newest.error:
        ended = BackupEnded(newest.id, 0, reason=newest.error)
        found[f"backup:{newest.ended_at}"] = _told(EventType.BACKUP_FAILED, ended)
    elif context.settings.backup_copy_dir and (uncopied := await runs.uncopied(context.scripts)):
        ended = BackupEnded(uncopied, 0, reason="COPY_FAILED")
        found[f"copy:{uncopied}"] = _told(EventType.BACKUP_COPY_FAILED, ended)
    return found


async def _proxy_pool(context: Context) -> Troubles:
    found = {}
    if (outage := await proxies.outage(context.scripts)) is not None:
        found["proxies:outage"] = _told(EventType.PROXY_OUTAGE, outage)
    if await proxies.is_inventory_low(context.scripts):
        found["proxies:low"] = _told(EventType.PROXY_LOW_INVENTORY, LowInventory("{}"))
    return found


def _told(kind: EventType, payload: Payload) -> FoundTrouble:
    return FoundTrouble(kind, payload, told=True)
