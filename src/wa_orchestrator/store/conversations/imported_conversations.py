"""Conversations from before a device was linked, as its phone tells them."""

from collections.abc import Sequence
from dataclasses import dataclass

from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.messages.incoming import id_of
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.conversations import conversation_homes
from wa_orchestrator.store.engine.scripts import Argument, Scripts

_DAY_MS = 86_400_000
#: How many a session may bring within a day. A phone tells no more than its worker passes on.
MOST_PER_DAY = 2_000


@dataclass(frozen=True, slots=True)
class ImportedText:
    """A text of such a conversation."""

    whatsapp_id: str
    at_ms: int
    text: str
    is_ours: bool


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """A conversation as its phone tells it; `texts` has the newest first."""

    session: str
    our_phone: str
    phone: str
    lid: str
    group: str
    name: str
    last_at_ms: int
    texts: Sequence[ImportedText] = ()

    @property
    def contact(self) -> str:
        return conversation.contact_name(self.phone, self.lid, self.group)


async def put(scripts: Scripts, each: ImportedConversation, *, keep_ms: int) -> bool:
    """Store a conversation; False when it is known, and has at most got a name and older texts."""
    (known,) = await conversation_homes.homes(scripts, each.our_phone, each.session, [each.contact])
    home = known or each.session
    # What another session of the account has received is not to be shown again.
    texts = each.texts if home == each.session else ()
    names = [
        keys.conversation(home, each.contact), keys.thread(home, each.contact),
        keys.CONVERSATION_INDEX, keys.CONVERSATION_ACTIVITY, keys.CONVERSATION_NAMES, keys.OPT_OUTS, keys.INCOMING,
        *(keys.incoming(each.session, text.whatsapp_id) for text in texts),
    ]  # fmt: skip
    args: list[Argument] = [
        each.session, each.our_phone, each.contact, each.phone, each.lid, "1" if each.group else "", each.name,
        each.name.casefold(), each.last_at_ms, keep_ms, home,
    ]  # fmt: skip
    for text in texts:
        direction = "out" if text.is_ours else "in"
        args += [id_of(each.session, text.whatsapp_id), text.whatsapp_id, text.at_ms, direction, text.text]
    return await scripts.whether("import_conversation", names, args, imported=True, known=False)


async def spend(scripts: Scripts, session: str, count: int) -> bool:
    """Count conversations that a session brings; False: it brings more than a phone tells."""
    return await leases.spend(scripts, f"history {session}", _DAY_MS / MOST_PER_DAY, MOST_PER_DAY, count)
