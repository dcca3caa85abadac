"""Troubles of the whole server: disk, Redis, archive, nodes, backups, proxies, campaigns and more."""

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.campaigns.campaign import CampaignState, PauseReason
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.stream_events import (
    ArchiveFailing,
    BackupEnded,
    CampaignChanged,
    DiskLow,
    EventType,
    Instant,
    LowInventory,
    LowProfiles,
    NodeLost,
    Payload,
    RedisEmptied,
    RedisMemoryLow,
    UnprovenOptOuts,
    WebhookDisabled,
)
from wa_orchestrator.domain.workers.nodes import NodeState
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.campaigns import campaign_records
from wa_orchestrator.store.engine import durability
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.events.lasting_troubles import FoundTrouble, Troubles
from wa_orchestrator.store.history import archive_marks
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.sessions import nodes as stored_nodes
from wa_orchestrator.store.sessions import profiles

_LEAST_SHARE: Final = 0.05
_LEAST_BYTES: Final = 2 * 1024**3
#: What is low is over only when there is so much more room: free space goes up and down.
_OVER: Final = 1.2
_NODE: Final = "node:"
#: Runners whose engine chooses among several nodes.
_PLACING: Final = ("swarm", "kubernetes")


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
        **await _lost_nodes(context, known),
        **await _failed_backups(context),
        **await _proxy_pool(context),
        **await _paused_campaigns(context),
        **await _unproven_opt_outs(context),
        **await _disabled_webhooks(context),
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
    """Credentials on disk and no session in Redis. `installation_check` emits the event."""
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


async def _lost_nodes(context: Context, known: Collection[str]) -> Troubles:
    """Nodes that do not answer, but for those that an operator drained: they may be switched off.

    While nobody has asked the engine, as after a restart, a node that was lost still is.
    """
    nodes = await stored_nodes.known(context.scripts)
    lost = {each.name for each in nodes if each.state is NodeState.LOST}
    if not nodes and context.settings.runner in _PLACING:
        lost = {name.removeprefix(_NODE) for name in known if name.startswith(_NODE)}
    left = lost - await stored_nodes.drained(context.scripts) if lost else lost
    return {f"{_NODE}{name}": FoundTrouble(EventType.NODE_LOST, NodeLost(name)) for name in left}


async def _failed_backups(context: Context) -> Troubles:
    """The newest backup failed, or has no second copy. The backup itself emitted the event."""
    found = {}
    newest = next((each for each in await runs.latest(context.scripts) if each.kind == "backup"), None)
    if newest is not None and newest.error:
        ended = BackupEnded(newest.id, 0, reason=newest.error)
        found[f"backup:{newest.ended_at}"] = _told(EventType.BACKUP_FAILED, ended)
    elif (context.settings.backup_copy_dir or context.settings.backup_s3_url) and (
        uncopied := await runs.uncopied(context.scripts)
    ):
        ended = BackupEnded(uncopied, 0, reason="COPY_FAILED")
        found[f"copy:{uncopied}"] = _told(EventType.BACKUP_COPY_FAILED, ended)
    return found


async def _proxy_pool(context: Context) -> Troubles:
    found = {}
    if (outage := await proxies.outage(context.scripts)) is not None:
        found["proxies:outage"] = _told(EventType.PROXY_OUTAGE, outage)
    if await proxies.is_inventory_low(context.scripts):
        found["proxies:low"] = _told(EventType.PROXY_LOW_INVENTORY, LowInventory("{}"))
    if await profiles.is_low(context.scripts):
        found["profiles:low"] = _told(EventType.PROFILE_LOW_INVENTORY, LowProfiles("{}"))
    return found


async def _paused_campaigns(context: Context) -> Troubles:
    """Campaigns that paused by themselves, until a person resumes or cancels them. The feeder emitted the event."""
    return {
        f"campaign:{each.id}": _told(
            EventType.CAMPAIGN_PAUSED_ITSELF, CampaignChanged(each.id, CampaignState.PAUSED, each.why)
        )
        for each in await campaign_records.active(context.scripts)
        if each.state is CampaignState.PAUSED and each.why != PauseReason.OPERATOR
    }


async def _unproven_opt_outs(context: Context) -> Troubles:
    """Sessions whose workers reported more opt-outs of strangers than is usual, for an hour; `opt_outs` emitted it."""
    return {
        f"opt-outs:{session}": _told(
            EventType.SESSION_OPT_OUTS_UNPROVEN,
            UnprovenOptOuts(SessionId(session), Phone(""), contacts.UNPROVEN_PER_HOUR),
        )
        for session in await contacts.sessions_with_unproven_opt_outs(context.scripts)
    }


async def _disabled_webhooks(context: Context) -> Troubles:
    """Webhooks that were disabled, until a person enables or removes them. Disabling one emitted the event."""
    found = {}
    for webhook_id in await webhooks.every(context.scripts):
        state = await webhooks.state(context.scripts, webhook_id)
        if state.disabled_at_ms:
            disabled = WebhookDisabled(webhook_id, state.why)
            found[f"webhook-disabled:{webhook_id}"] = _told(EventType.WEBHOOK_DISABLED, disabled)
    return found


def _told(kind: EventType, payload: Payload) -> FoundTrouble:
    return FoundTrouble(kind, payload, told=True)
