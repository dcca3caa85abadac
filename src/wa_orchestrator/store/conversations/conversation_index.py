"""Lists conversations by state, contacts by number, and finds both by number and name."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final

from wa_orchestrator.domain.conversation import ConversationState
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_records
from wa_orchestrator.store.conversations.conversation_records import Name, StoredConversation
from wa_orchestrator.store.engine.scripts import Scripts

#: Members that one step of a search looks at; Redis is free between two.
_SCANNED: Final = 2_000
_MOST_SCANS: Final = 250


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """A place in the list of one state: where it stands, and whose conversation it is."""

    tail: str

    @property
    def name(self) -> Name:
        _, _, session, contact = self.tail.split(" ")
        return session, contact


async def page(
    scripts: Scripts,
    state: ConversationState,
    *,
    among: Collection[str] | None = None,
    after: str = "",
    most: int,
) -> list[ListedConversation]:
    """Return the next entries of a state after a tail: who waits longest first, of the others the newest first.

    With `among`, only conversations of these sessions.
    """
    head = f":{state} "
    pipe = scripts.redis.pipeline(transaction=False)
    for session in [""] if among is None else sorted(among):
        first, last = f"{session}{head}", f"{session}{head}~"
        if state is ConversationState.WAITING:
            low = f"({session}{after}" if after else f"[{first}"
            pipe.zrangebylex(keys.CONVERSATION_INDEX, low, f"[{last}", start=0, num=most)
        else:
            high = f"({session}{after}" if after else f"[{last}"
            pipe.zrevrangebylex(keys.CONVERSATION_INDEX, high, f"[{first}", start=0, num=most)
    tails = [f":{member.partition(':')[2]}" for found in await pipe.execute() for member in found]
    return [ListedConversation(tail) for tail in sorted(tails, reverse=state is not ConversationState.WAITING)[:most]]


async def read(scripts: Scripts, entries: Sequence[ListedConversation]) -> list[StoredConversation]:
    """Return the conversations of these entries. An entry that its conversation contradicts is put right."""
    stored = await conversation_records.read(scripts, [entry.name for entry in entries])
    found: dict[Name, StoredConversation] = {(each.session, each.contact): each for each in stored}
    kept: list[StoredConversation] = []
    for entry in entries:
        known = found.get(entry.name)
        if known is not None and known.index_tail == entry.tail:
            kept.append(known)
        else:
            names = [keys.conversation(*entry.name), keys.CONVERSATION_INDEX]
            await scripts.whether("index_conversation", names, [entry.tail, entry.name[0]], indexed=True, gone=False)
    return kept


async def counts(scripts: Scripts, *, among: Collection[str] | None = None) -> dict[ConversationState, int]:
    """Return how many conversations have each state, in one round trip."""
    pipe = scripts.redis.pipeline(transaction=False)
    for state, session in product(ConversationState, [""] if among is None else sorted(among)):
        pipe.zlexcount(keys.CONVERSATION_INDEX, f"[{session}:{state} ", f"[{session}:{state} ~")
    found = iter(await pipe.execute())
    each = 1 if among is None else len(among)
    return {state: sum(islice(found, each)) for state in ConversationState}


async def count_assigned(
    scripts: Scripts, person: str, *, among: Collection[str] | None = None, most: int
) -> tuple[int, bool]:
    """Return how many conversations that are not closed a person ('' for nobody) answers, and whether these are all: at
    most so many of a state are looked at.
    """
    states = [state for state in ConversationState if state is not ConversationState.CLOSED]
    found = [await page(scripts, state, among=among, most=most) for state in states]
    names = [keys.conversation(*entry.name) for entries in found for entry in entries]
    answerers = await scripts.each(lambda pipe, key: pipe.hget(key, "assigned"), names)
    return [each or "" for each in answerers].count(person), all(len(entries) < most for entries in found)


async def count_without(scripts: Scripts, contacts: Sequence[str]) -> int:
    """Return how many of these people have no conversation with any session: they never wrote, as far as is known."""
    found = await scripts.each(
        lambda pipe, contact: pipe.zlexcount(keys.CONVERSATION_NAMES, f"[{contact} ", f"({contact}!"), contacts
    )
    return found.count(0)


async def search(scripts: Scripts, text: str, *, among: Collection[str] | None = None, most: int) -> list[Name]:
    """Return conversations whose number or name contains a text, in no order; `text` is folded as names are."""
    pattern = f"*{_escaped(text)}*"
    found: list[Name] = []
    cursor = 0
    for _ in range(_MOST_SCANS):
        cursor, members = await scripts.redis.zscan(keys.CONVERSATION_NAMES, cursor, match=pattern, count=_SCANNED)
        for member, _ in members:
            contact, session, name = str(member).split(" ", 2)
            # The session's id is between the two, and is not searched.
            if (text in contact or text in name) and (among is None or session in among):
                found.append((session, contact))
        if not cursor or len(found) >= most:
            break
    return found[:most]


async def contacts(
    scripts: Scripts, *, among: Collection[str] | None = None, after: str = "", most: int
) -> tuple[list[tuple[str, list[str]]], bool]:
    """Return the contacts after this one, by number, each with the sessions that have a conversation with it; and
    whether there are more.
    """
    found: dict[str, list[str]] = {}
    low = f"({after} \x7f" if after else "-"
    while True:
        members: Any = await scripts.redis.zrangebylex(keys.CONVERSATION_NAMES, low, "+", start=0, num=_SCANNED)
        for member in members:
            contact, session, _ = str(member).split(" ", 2)
            if among is None or session in among:
                if contact not in found and len(found) == most:
                    return list(found.items()), True
                found.setdefault(contact, []).append(session)
        if len(members) < _SCANNED:
            return list(found.items()), False
        low = f"({members[-1]}"


def _escaped(text: str) -> str:
    """Return a text without what Redis takes for a pattern."""
    return "".join(f"\\{each}" if each in "*?[]^\\" else each for each in text)
