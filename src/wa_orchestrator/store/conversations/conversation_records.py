"""Conversations as Redis stores them: read, changed by people, forgotten."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.conversation import ConversationState
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.record_codec import decode, flat
from wa_orchestrator.timestamps import FOREVER_MS

#: The session and the contact of a conversation.
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """One conversation. Every field of its hash. Its messages are elsewhere, and so is the text of the last one."""

    session: SessionId
    contact: str
    """Under which it is kept: the contact's phone, `lid:…` while only that is known, or the group."""
    phone: Phone
    lid: str
    group: bool
    name: str
    """The name that the contact has chosen; of a group, what it is called."""
    folded: str
    """The name as it is searched."""
    our_phone: Phone
    """The account that has it; '' where an earlier version stored it, until the contact writes again."""
    devices: tuple[str, ...]
    """Other sessions of the account that took part in it."""
    created_at: int
    last_at: int
    last_message: str
    last_in: str
    """WhatsApp's id of the last message that came in."""
    last_in_at: int
    unread: int
    opted_out: bool
    """Whether the contact wants no more messages from this phone, as the list of opt-outs has it."""
    waiting_since: int
    """When the first message came that nobody has read; 0 if there is none."""
    answer: str
    """The message of ours that answered what was unread; '' if something else did, or it ended unsent."""
    answered_unread: int
    """How much was unread until that answer, and since when: it is again if the answer ends unsent."""
    answered_since: int
    read_at: int
    closed: bool
    closed_at: int
    # What people noted.
    notes: str
    noted_at: int
    """When the notes were last changed; 0 where that was not recorded."""
    noted_by: str
    """Who did that, by name."""
    earlier_notes: tuple[str, ...]
    """What they said before, the newest first: JSON of `text`, `at` and `by`."""
    tags: tuple[str, ...]
    assigned: str
    """The id of the account that answers it."""

    @property
    def id(self) -> str:
        return conversation.id_of(self.session, self.contact)

    @property
    def state(self) -> ConversationState:
        """Where it is listed, as `lua/shared/_conversation_index.lua` has it."""
        if self.unread and not self.group and not self.opted_out:
            return ConversationState.WAITING
        return ConversationState.CLOSED if self.closed else ConversationState.OPEN

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which messages of the contact are stored."""
        others = (self.phone, f"lid:{self.lid}" if self.lid else "")
        return tuple(dict.fromkeys((self.contact, *(each for each in others if each and not self.group))))

    @property
    def sessions(self) -> tuple[str, ...]:
        """All sessions under whose name its messages are stored."""
        return tuple(dict.fromkeys((self.session, *self.devices)))

    @property
    def index_tail(self) -> str:
        """Its member of the index, without the session in front."""
        order = self.waiting_since if self.state is ConversationState.WAITING else self.last_at
        return f":{self.state} {order:013d} {self.session} {self.contact}"


class ConversationChanges(TypedDict, total=False):
    """Fields of a conversation that change by themselves or by people, typed as in `StoredConversation`."""

    notes: str
    noted_at: int
    noted_by: str
    tags: tuple[str, ...]
    assigned: str
    closed: bool
    closed_at: int
    opted_out: bool


async def find(scripts: Scripts, session: str, contact: str) -> StoredConversation | None:
    """Return a conversation, also by the LID of a contact whose phone is known by now, and by a session of the account
    that does not keep it, or does not any more.
    """
    if found := await read(scripts, [(session, contact)]):
        return found[0]
    names = [contact]
    if contact.startswith("lid:"):
        phone = await scripts.redis.get(keys.phone_of(contact.removeprefix("lid:")))
        names = [str(phone), contact] if phone else names
    others = await read(scripts, await names_of(scripts, names))
    return next((each for each in others if session in each.sessions), None)


async def read(scripts: Scripts, names: Sequence[Name]) -> list[StoredConversation]:
    """Return these conversations in this order, without those that are gone."""
    raws = await scripts.each(Pipeline.hgetall, [keys.conversation(*name) for name in names])
    return [decode(StoredConversation, raw) for raw in raws if raw.get("session")]


async def change(
    scripts: Scripts,
    known: StoredConversation,
    changes: ConversationChanges,
    *,
    by: str,
    what: str,
    our_phone: str = "",
    read_until: str = "",
) -> bool:
    """Change a conversation and emit its event; False if it is so already, or gone.

    `read_until` is the instant of the last message that was seen; 'unread' makes it wait again.
    """
    names = [
        keys.conversation(known.session, known.contact), keys.CONVERSATION_INDEX, keys.EVENTS,
        keys.thread(known.session, known.contact),
    ]  # fmt: skip
    args: list[Argument] = [known.id, our_phone, by, what, read_until, *flat(changes)]
    return await scripts.whether("change_conversation", names, args, changed=True, same=False, unknown=False)


async def received_at(scripts: Scripts, known: StoredConversation, message_id: str) -> int | None:
    """Return when an incoming message of a conversation came; None for one that is not in Redis."""
    found = await scripts.redis.zscore(keys.thread(known.session, known.contact), message_id)
    return None if found is None else int(found)


async def remove(scripts: Scripts, name: Name, *, until_ms: int = FOREVER_MS) -> bool:
    """Forget a conversation whose last message is not newer; return whether it is forgotten."""
    names = [
        keys.conversation(*name), keys.thread(*name), keys.CONVERSATION_INDEX, keys.CONVERSATION_ACTIVITY,
        keys.CONVERSATION_NAMES,
    ]  # fmt: skip
    return await scripts.whether("remove_conversation", names, [*name, until_ms], removed=True, kept=False)


async def remove_older(scripts: Scripts, until_ms: int, *, most: int) -> int:
    """Forget conversations whose last message is as old as this; return how many."""
    found: Any = await scripts.redis.zrangebyscore(keys.CONVERSATION_ACTIVITY, "-inf", until_ms, start=0, num=most)
    names = [_name(str(member)) for member in found]
    return sum([await remove(scripts, name, until_ms=until_ms) for name in names])


async def remove_of(scripts: Scripts, contacts: Collection[str]) -> None:
    """Forget all conversations with a person, known by these names."""
    for conversation_name in await names_of(scripts, contacts):
        await remove(scripts, conversation_name)


async def names_of(scripts: Scripts, contacts: Collection[str]) -> list[Name]:
    """Return the conversations with a person, known by these names."""
    found: list[Name] = []
    for contact in contacts:
        members: Any = await scripts.redis.zrangebylex(keys.CONVERSATION_NAMES, f"[{contact} ", f"[{contact} \x7f")
        found += [(str(member).split(" ", 2)[1], contact) for member in members]
    return found


def _name(member: str) -> Name:
    session, _, contact = member.partition(" ")
    return session, contact
