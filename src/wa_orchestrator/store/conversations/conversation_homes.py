"""The session under which an account stores its one conversation with a contact."""

from collections.abc import Sequence
from typing import Any, Final

from wa_orchestrator.domain.conversation import ConversationState
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_index
from wa_orchestrator.store.conversations.conversation_records import Name
from wa_orchestrator.store.engine.scripts import Scripts

_AT_ONCE: Final = 100


async def homes(scripts: Scripts, our_phone: str, session: str, contacts: Sequence[str]) -> list[str]:
    """Return the session that has the account's conversation with each contact; '' where there is none yet.

    It may be deleted by now; the conversation stays where it is. Of several the oldest counts. `session` is one of
    the account.
    """
    lists = await scripts.each(
        lambda pipe, contact: pipe.zrangebylex(keys.CONVERSATION_NAMES, f"[{contact} ", f"[{contact} \x7f"), contacts
    )
    names = [
        [(str(member).split(" ", 2)[1], contact) for member in members]
        for contact, members in zip(contacts, lists, strict=True)
    ]
    asked = [name for found in names for name in found]
    if all(each == session for each, _ in asked):  # by far the most
        return [session if found else "" for found in names]
    read: list[Any] = await scripts.each(
        lambda pipe, key: pipe.hmget(key, ["our_phone", "created_at"]), [keys.conversation(*name) for name in asked]
    )
    facts = dict(zip(asked, read, strict=True))
    return [_oldest(our_phone, session, {name: facts[name] for name in found}) for found in names]


def _oldest(our_phone: str, session: str, facts: dict[Name, tuple[str | None, str | None]]) -> str:
    own = [
        (int(float(created_at or 0)), name[0])
        for name, (phone, created_at) in facts.items()
        # An earlier version did not note the phone.
        if (phone == our_phone and phone) or (name[0] == session and not phone)
    ]
    return min(own)[1] if own else ""


async def of_incoming(
    scripts: Scripts, our_phone: str, session: str, chat: str, by_lid: str, *, is_group: bool
) -> tuple[str, str]:
    """Return the session that has the conversation to which a message comes, and the one that has it by the contact's
    LID. One that was deleted hands its conversation to the session that reports the message.
    """
    known = [
        home and await _taken_over(scripts, (home, contact), session)
        for home, contact in zip(await homes(scripts, our_phone, session, [chat, by_lid]), [chat, by_lid], strict=True)
    ]
    home_by_lid = known[1] or session
    return known[0] or (session if is_group else home_by_lid), home_by_lid


async def hand_over(scripts: Scripts, session: str, our_phone: str) -> int:
    """Give the conversations of a deleted session to another one of its account, if there is one; return how many."""
    others = sorted(str(each) for each in await scripts.redis.smembers(keys.sessions_of_phone(our_phone)))
    heir = next((each for each in others if each != session), None)
    count = 0
    for state in ConversationState if heir else ():
        while entries := await conversation_index.page(scripts, state, among=[session], most=_AT_ONCE):
            moved = [await move(scripts, entry.name, str(heir)) for entry in entries]
            count += sum(moved)
            if not all(moved):  # the other session has one already
                break
    return count


async def move(scripts: Scripts, name: Name, session: str) -> bool:
    """Give a conversation to another session of its account; False where that has one with this contact."""
    _, contact = name
    names = [
        keys.conversation(*name), keys.thread(*name), keys.conversation(session, contact),
        keys.thread(session, contact), keys.CONVERSATION_INDEX, keys.CONVERSATION_ACTIVITY, keys.CONVERSATION_NAMES,
    ]  # fmt: skip
    return await scripts.whether("move_conversation", names, [session], moved=True, kept=False)


async def _taken_over(scripts: Scripts, name: Name, session: str) -> str:
    home, _ = name
    if home == session or await scripts.redis.exists(keys.session(home)):
        return home
    return session if await move(scripts, name, session) else home


async def of_message(scripts: Scripts, our_phone: str, session: str, to: str, *, answered: str = "") -> Name:
    """Return the conversation that a message belongs to; `answered` is the one that it answered, as its record says.

    The contact's phone may have become known since, and the message may have gone to another phone of ours.
    """
    earlier, _, name = answered.partition(" ")
    contact = name or to
    is_lid = contact.startswith("lid:")
    if is_lid and not await scripts.redis.exists(keys.conversation(earlier or session, contact)):
        contact = str(await scripts.redis.get(keys.phone_of(contact.removeprefix("lid:"))) or contact)
    if earlier and await scripts.redis.exists(keys.conversation(earlier, contact)):
        return earlier, contact
    (home,) = await homes(scripts, our_phone, session, [contact])
    return home or session, contact
