"""Which sessions a proxy had when it became bad: the server moves them at once, so its record no longer shows them."""

from collections.abc import Mapping, Sequence
from typing import Final

from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Proxy

#: A drain is over after this time.
_WITHIN_MS: Final = 60_000
_MAX_EVENTS: Final = 1000
_LEFT: Final = frozenset({EventType.SESSION_MOVED, EventType.SESSION_SLOT_LOST})


class DisplacedSessions:
    """Finds the sessions in the event stream. A drain is searched again until it is over, then cached."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._known: dict[tuple[str, int], Sequence[str]] = {}

    async def of(self, proxies: Sequence[Proxy], now_ms: int) -> Mapping[str, Sequence[str]]:
        """Return the ids of the moved sessions by bad proxy."""
        bad = {(each.id, each.changed_at) for each in proxies if each.status != "OK"}
        self._known = {mark: left for mark, left in self._known.items() if mark in bad}
        found = dict(self._known)
        for mark in bad - found.keys():
            found[mark] = await self._search(*mark)
            if now_ms > mark[1] + _WITHIN_MS:
                self._known[mark] = found[mark]
        return {proxy_id: left for (proxy_id, _), left in found.items()}

    async def _search(self, proxy_id: str, since_ms: int) -> Sequence[str]:
        found = await event_stream.between(self._scripts, since_ms, since_ms + _WITHIN_MS, most=_MAX_EVENTS)
        events = [each.fields for each in found if each.fields.get("type") in _LEFT]
        return list(dict.fromkeys(fields["session"] for fields in events if fields.get("from") == proxy_id))
