"""Detects that Redis has lost its data: applies the settings again, and alerts the operator."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.stream_events import EventType, RedisEmptied
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.sessions import control_plane

_EVERY_S = 2.0

log = structlog.get_logger(__name__)


async def check_installation(context: Context) -> float:
    """Set up a Redis that is new or empty: the mark of an installation goes with everything else that it holds.

    The mark is written last: after a crash this is done again.
    """
    if not await control_plane.is_installed(context.scripts):
        await add_configured_proxies(context)
        await _report_loss(context)
        await control_plane.mark_installed(context.scripts)
    return _EVERY_S


async def _report_loss(context: Context) -> None:
    """Report an empty Redis if there are credentials of sessions that it should know."""
    linked = await credential_files.linked_sessions(context.settings)
    if linked and not await records.sessions(context.scripts):
        log.error("redis.emptied", sessions=len(linked))
        await event_stream.emit(context.scripts, EventType.REDIS_EMPTIED, RedisEmptied(sessions=len(linked)))


async def add_configured_proxies(context: Context) -> None:
    """Add `PROXY_URL_1…n` to the pool; known proxies stay as they are."""
    for secret in context.settings.proxy_urls:
        url = await proxies.recognized(context.scripts, proxy_url.parse(secret.get_secret_value()))
        await proxies.add(context.scripts, url.id, url=url.url, masked=url.masked, origin="environment")
