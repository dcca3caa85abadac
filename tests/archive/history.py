"""Messages that have ended, made directly, and what a search must find among them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.messages import message_search
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import ended_messages
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.message_filters import Filters

BEGIN_MS = 1_750_000_000_000
DAY_MS = 86_400_000


def ended_message(number: int, *, accepted_at: int = BEGIN_MS, ended_at: int = BEGIN_MS, **fields: str) -> MessageCopy:
    """A message that has ended, as Redis stores it."""
    name = f"m_{number:018x}"
    known = {
        "id": name, "whatsapp_id": f"3EB0{number:018X}", "phone": "972500000001", "session": "w1", "to": "97251",
        "status": "sent", "reason": "", "priority": "5", "sequence": str(number), "kind": "text",
        "body": body_of(f"hello number {number}"), "reference": "", "batch": "", "accepted_at": str(accepted_at),
        "attempts": "1", "releases": "1",
    }  # fmt: skip
    return MessageCopy(
        name, known | fields, [f"{ended_at} sending ", f"{ended_at} {fields.get('status', 'sent')} "], ended_at
    )


def body_of(text: str) -> str:
    return json.dumps({"kind": "text", "text": text}, ensure_ascii=False)


async def put_into_redis(scripts: Scripts, messages: Sequence[MessageCopy]) -> None:
    for each in messages:
        assert await ended_messages.restore(scripts, each)


async def move(scripts: Scripts, archive: Archive, messages: Sequence[MessageCopy]) -> None:
    """Move messages from Redis to the archive as the archiver does."""
    await archive.put_messages(messages)
    await ended_messages.remove(scripts, messages)


async def found_ids(scripts: Scripts, archive: Archive, *, limit: int = 50, **filters: Any) -> list[str]:
    """All pages of a search, one after another."""
    found, last = await message_search.search(scripts, archive, Filters(**filters), limit=limit)
    while last is not None:
        more, last = await message_search.search(scripts, archive, Filters(**filters), after=last, limit=limit)
        found += more
    return [each.id for each in found]


def newest_first(messages: Mapping[str, MessageCopy]) -> list[str]:
    return sorted(messages, key=lambda name: (messages[name].accepted_at, name), reverse=True)
