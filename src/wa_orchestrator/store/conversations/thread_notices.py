"""What a conversation has besides messages: calls that ended, and messages that could not be read."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

CALL: Final = "call"
UNDECRYPTABLE: Final = "undecryptable"


@dataclass(frozen=True, slots=True)
class Notice:
    """A call, by its id and outcome, or a message that could not be read, by WhatsApp's id and the reason."""

    kind: str
    session: str
    whatsapp_id: str
    what: str
    """How the call ended: missed, answered, rejected; or why the message could not be read."""
    video: bool = False

    def encoded(self) -> str:
        """Return it as it is stored."""
        return json.dumps(asdict(self))


async def between(
    scripts: Scripts, phone: str, contacts: Collection[str], *, after_ms: int, until_ms: int
) -> list[tuple[int, Notice]]:
    """Return the notices of our phone and a contact, by any of its names, with their instants, the oldest first."""
    found: list[tuple[int, Notice]] = []
    for contact in contacts:
        name = keys.notices(phone, contact)
        stored: Any = await scripts.redis.zrangebyscore(name, f"({after_ms}", until_ms, withscores=True)
        found += [(int(at), Notice(**json.loads(text))) for text, at in stored]
    return sorted(found, key=lambda each: each[0])
