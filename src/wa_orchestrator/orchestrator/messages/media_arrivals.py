"""Fetches files as they come in, where MEDIA_FETCH says so; what cannot be fetched yet is tried again for a day."""

import asyncio
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.orchestrator.messages.media_fetch import TIMEOUT_S, MediaFetch
from wa_orchestrator.store import due_items
from wa_orchestrator.store.due_items import Due

#: Files that are fetched at once; a session that is slow takes no more of them than its worker fetches at a time.
_AT_ONCE: Final = 8
_IDLE_S: Final = 2.0
#: If this process dies, its files are due again after that.
_AWAY_MS: Final = round(TIMEOUT_S * 2000)


class MediaArrivals:
    """Takes files that are due, and fetches them one after the other and beside one another."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._fetch = MediaFetch(context)
        self._tasks: set[asyncio.Task[None]] = set()

    async def step(self) -> float:
        """Begin to fetch what is due; return the seconds to wait."""
        if len(self._tasks) >= _AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        most = _AT_ONCE - len(self._tasks)
        taken = await due_items.take(self._context.scripts, Due.MEDIA, most=most, away_ms=_AWAY_MS)
        for message_id in taken.items:
            task = asyncio.create_task(self._take(message_id, taken.mark))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return 0.0 if taken.items else _IDLE_S

    async def idle(self) -> None:
        """Wait until nothing is being fetched."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _take(self, message_id: str, mark: str) -> None:
        next_ms = await self._tried(message_id)
        await due_items.settle(self._context.scripts, Due.MEDIA, message_id, mark, next_ms=next_ms)

    async def _tried(self, message_id: str) -> int | None:
        """Fetch a file; return when to try again, None where that is done or pointless."""
        scripts, name = self._context.scripts, incoming.parse_id(message_id)
        fields = await message_lookup.incoming(scripts, self._context.archive, *name) if name else None
        if name is None or fields is None:
            return None
        try:
            await self._fetch.file(message_id, *name)
        except Refused:
            return None
        except Unavailable:
            return incoming.next_fetch_ms(int(float(fields["received_at"])), await scripts.now_ms())
        return None
