"""Which session has the conversation with a recipient: read before the sender of a message is chosen.

The choice of one client must not decide for another. So a client that reaches some sessions only has records of its
own, and leaves the one that all others share as it is; that one it reads, because a recipient may have written to a
phone of this client.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wa_orchestrator.domain.access.permissions import Everything, Reach
from wa_orchestrator.domain.messages.sender_policy import Readiness
from wa_orchestrator.gateway.redis_access import RedisAccess
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.senders import sender_choice
from wa_orchestrator.gateway.senders.sender_pool import PoolSnapshot
from wa_orchestrator.store import keys
from wa_orchestrator.store.sessions.labels import labels_of

#: Recipients whose sender is remembered.
_MOST_REMEMBERED: Final = 50_000
#: How long a record of its own is kept after a client last wrote to the recipient.
_KEPT_S: Final = 90 * 24 * 3600


class Conversation(NamedTuple):
    """Who has the conversation with a recipient, as it was read."""

    record: str
    """The name of the record that the client's messages change."""
    sender: str | None = None
    """The session that the record names."""
    shared: str | None = None
    """For a client with records of its own: the session that the shared record names."""

    def affinity(self, pool: PoolSnapshot, reach: Reach) -> str | None:
        """Return the session that is to go on with the conversation, as far as the client reaches it."""
        other = pool.senders.get(self.shared or "")
        if other is None or other.readiness is Readiness.OFFLINE:
            return self.sender
        return self.shared if reach.includes(other.session.id, labels_of(other.session)) else self.sender


def record_of(body: SendBody, api_key: str, reach: Reach) -> str:
    """Return the name of the record that says who has the conversation: the recipient's, or the client's own."""
    return body.to if isinstance(reach, Everything) else f"{api_key}:{body.to}"


class Conversations:
    """Reads the records, and remembers those that were read or corrected by Redis."""

    def __init__(self, redis: RedisAccess) -> None:
        self._redis = redis
        self._known: dict[str, str] = {}

    def remembered(self, body: SendBody) -> Conversation:
        """Return a shared record as it was last seen. The script of the admission knows better, and says so."""
        return Conversation(body.to, self._known.get(body.to) if sender_choice.is_free(body) else None)

    async def find(self, body: SendBody, api_key: str, reach: Reach) -> Conversation:
        """Return who has the conversation. Records of limited clients are read, the others are remembered."""
        if isinstance(reach, Everything):
            return self.remembered(body)
        return (await self.find_many([body], api_key, reach))[0]

    async def find_many(self, bodies: Sequence[SendBody], api_key: str, reach: Reach) -> list[Conversation]:
        """Read who has each conversation; nobody, where the client has named the sender."""
        records = [record_of(body, api_key, reach) for body in bodies]
        free = [n for n, body in enumerate(bodies) if sender_choice.is_free(body)]
        found = [Conversation(record) for record in records]
        if isinstance(reach, Everything):
            read = await self._redis.many([("GET", keys.affinity(records[n])) for n in free])
            for n, sender in zip(free, read, strict=True):
                found[n] = Conversation(records[n], sender)
            return found
        own = await self._redis.many([("GETEX", keys.affinity(records[n]), "EX", _KEPT_S) for n in free])
        shared = await self._redis.many([("GET", keys.affinity(bodies[n].to)) for n in free])
        for n, sender, other in zip(free, own, shared, strict=True):
            found[n] = Conversation(records[n], sender, other)
        return found

    def correct(self, old: Conversation, sender: str) -> Conversation:
        """Return a conversation with the sender ('': none) that Redis has named instead of the one that was read."""
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        if sender:
            self._known[old.record] = sender
        else:
            self._known.pop(old.record, None)
        return old._replace(sender=sender or None)
