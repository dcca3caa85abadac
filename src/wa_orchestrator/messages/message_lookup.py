"""Finds messages by id wherever they are, and brings an archived one back to Redis when it is to change."""

from collections.abc import Collection, Mapping, Sequence

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import ended_messages
from wa_orchestrator.store.messages import incoming_messages
from wa_orchestrator.store.messages.message_keys import Place, locate
from wa_orchestrator.store.records import Message


async def messages(scripts: Scripts, archive: Archive, ids: Sequence[str]) -> dict[str, Message]:
    """Return those of these messages that exist, by id.

    Redis first: what is in both places was changed there last. One that moves meanwhile is in the archive by then.
    """
    found: dict[str, Message] = {each.id: each for each in await records.messages(scripts, ids)}
    archived = await archive.messages([name for name in ids if name not in found])
    return found | {name: copy.record for name, copy in archived.items()}


async def message(scripts: Scripts, archive: Archive, message_id: str) -> Message | None:
    return (await messages(scripts, archive, [message_id])).get(message_id)


async def incoming(scripts: Scripts, archive: Archive, session: str, whatsapp_id: str) -> Mapping[str, str] | None:
    """Return the fields of an incoming message; None if there is none."""
    found = await incoming_messages.fields_of(scripts, session, whatsapp_id)
    return found or (await archive.incoming([(session, whatsapp_id)])).get((session, whatsapp_id))


async def missing_incoming(
    scripts: Scripts, archive: Archive, names: Sequence[tuple[str, str]]
) -> Collection[tuple[str, str]]:
    """Return those incoming messages, by session and WhatsApp's id, that are neither in Redis nor in the archive."""
    kept = await incoming_messages.fields_of_each(scripts, names)
    absent = [name for name, fields in zip(names, kept, strict=True) if not fields]
    return set(absent) - set(await archive.incoming(absent))


async def timeline(scripts: Scripts, archive: Archive, message_id: str) -> list[tuple[int, str, str]]:
    """Return a message's timeline as `records.timeline` does."""
    if found := await records.timeline(scripts, message_id):
        return found
    archived = await archive.messages([message_id])
    return archived[message_id].steps if archived else []


async def restored(scripts: Scripts, archive: Archive, message_id: str) -> Place | None:
    """Return the place of a message in Redis, brought back from the archive if it was there; None if there is none.

    Whatever changes a message changes it in Redis, by the same scripts. A day after that it is archived again.
    """
    if place := await locate(scripts, message_id):
        return place
    if copy := (await archive.messages([message_id])).get(message_id):
        await ended_messages.restore(scripts, copy)
    return await locate(scripts, message_id)
