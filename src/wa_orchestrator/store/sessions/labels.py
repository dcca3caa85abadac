"""The labels and tags of all sessions, by which keys, people, webhooks and holds are limited to some of them."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from wa_orchestrator.domain.access.permissions import Everything, Reach
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Session

#: How long they are cached: a session that gets another label is seen by others within this time.
FRESH_S: Final = 1.0
FIELDS: Final = ["label", "tags"]


def labels_of(session: Session) -> frozenset[str]:
    """Return the label and the tags of a session. A limit by labels treats both as names of groups."""
    return frozenset({session.label, *session.tags} - {""})


class SessionLabels:
    """Reads the labels and tags of all sessions, and again when they are older than `FRESH_S`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._labels: Mapping[str, frozenset[str]] = {}
        self._phones: Mapping[str, str] = {}
        self._read_at_s = float("-inf")

    async def read(self) -> Mapping[str, frozenset[str]]:
        """Return labels and tags by session id."""
        if time.monotonic() - self._read_at_s >= FRESH_S:
            at_s = time.monotonic()
            ids: Any = await self._scripts.redis.smembers(keys.SESSIONS_ALL)
            names = sorted(str(each) for each in ids)
            fields = [*FIELDS, "phone"]
            found = await self._scripts.each(lambda pipe, key: pipe.hmget(key, fields), map(keys.session, names))
            self._labels = {
                name: frozenset({label or "", *json.loads(tags or "[]")} - {""})
                for name, (label, tags, _) in zip(names, found, strict=True)
            }
            self._phones = {name: phone or "" for name, (_, _, phone) in zip(names, found, strict=True)}
            self._read_at_s = at_s
        return self._labels

    async def reached(self, reach: Reach) -> frozenset[str] | None:
        """Return the ids of the sessions that are reached, also deleted ones that are named; None for all."""
        if isinstance(reach, Everything):
            return None
        labels = await self.read()
        return frozenset(name for name in labels if reach.includes(name, labels[name])) | reach.sessions

    async def filter_for(self, reach: Reach) -> Callable[[str], bool]:
        """Return a function that says whether a session ('' = none) is reached."""
        reached = await self.reached(reach)
        return (lambda _: True) if reached is None else reached.__contains__

    async def account_filter_for(self, reach: Reach) -> Callable[[str], bool]:
        """Return the same for what is of an account: it is enough that one of its sessions is reached."""
        reached = await self.reached(reach)
        return (lambda _: True) if reached is None else (await self.with_siblings(reached)).__contains__

    async def reached_accounts(self, reach: Reach) -> frozenset[str] | None:
        """Return the sessions that are reached, with all others of their accounts; None for all."""
        reached = await self.reached(reach)
        return None if reached is None else await self.with_siblings(reached)

    async def with_siblings(self, sessions: frozenset[str]) -> frozenset[str]:
        """Return these sessions and all others that are linked to their phones."""
        await self.read()
        phones = {self._phones.get(name) for name in sessions} - {None, ""}
        return sessions | {name for name, phone in self._phones.items() if phone in phones}
