"""Finds conversations by number, name and what was written, for the routes of conversations and of contacts."""

from collections.abc import Collection
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.messages import conversation_thread
from wa_orchestrator.store.conversations import conversation_index, conversation_records
from wa_orchestrator.store.conversations.conversation_records import StoredConversation

HITS: Final = 20


async def find(context: Context, text: str, among: Collection[str] | None) -> list[StoredConversation]:
    """Return conversations by number and name, the newest first, then by what was written; at most `HITS`."""
    scripts = context.scripts
    # As people write it: with signs between, and with a zero in place of the country.
    digits = "".join(each for each in text if each.isdigit()).lstrip("0")
    folded = text.strip().casefold()
    names = await conversation_index.search(scripts, folded, among=among, most=HITS)
    if len(digits) >= 4 and digits != folded:
        names += await conversation_index.search(scripts, digits, among=among, most=HITS)
    named = await conversation_records.read(scripts, list(dict.fromkeys(names)))
    named.sort(key=lambda each: each.last_at, reverse=True)
    hits = await conversation_thread.search(scripts, context.archive, text, among=among, most=HITS)
    seen = {(each.session, each.contact) for each in named}
    others = [name for name, _ in hits if name not in seen]
    return [*named, *await conversation_records.read(scripts, others)][:HITS]
