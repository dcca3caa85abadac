"""Notices that Redis has lost its data: the settings are applied again, and the operator is told what is gone."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import proxy_url
from wa_orchestrator.domain.stream_events import EventType, RedisEmptied
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.sessions import control_plane

_EVERY_S = 2.0

log = structlog.get_logger(__name__)


class InstallationCheck:
    """Looks for the mark of an installation, which goes with everything else that Redis holds."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def step(self) -> float:
        """Set up a Redis that is new or empty. The mark is written last: after a crash this is done again."""
        scripts = self._context.scripts
        if not await control_plane.is_installed(scripts):
            await add_configured_proxies(self._context)
            await self._report_loss()
            await control_plane.mark_installed(scripts)
        return _EVERY_S

    async def _report_loss(self) -> None:
        """Report an empty Redis if there are credentials of sessions that it should know."""
        linked = await credential_files.linked_sessions(self._context.settings)
        if linked and not await records.sessions(self._context.scripts):
            log.error("redis.emptied", sessions=len(linked))
            lost = RedisEmptied(sessions=len(linked))
            await event_stream.emit(self._context.scripts, EventType.REDIS_EMPTIED, lost)


async def add_configured_proxies(context: Context) -> None:
    """Add `PROXY_URL_1…n` to the pool; known proxies stay as they are."""
    for secret in context.settings.proxy_urls:
        url = proxy_url.parse(secret.get_secret_value())
        await proxies.add(context.scripts, url.id, url=url.url, masked=url.masked, origin="environment")
