"""Reads events from Redis, and what is older from the archive, as one stream."""

from collections.abc import Sequence
from dataclasses import replace

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.domain.stream_events import OF_INCOMING
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.events.event_stream import Details, cursor_order
from wa_orchestrator.store.records import Entry


async def read(scripts: Scripts, archive: Archive, *, after: str, most: int) -> list[Entry]:
    """Return the events after a cursor, oldest first.

    The oldest event in Redis is looked at after the read: if it is not newer than the cursor, nothing was trimmed
    between the two.
    """
    entries = await event_stream.read(scripts, after=after, most=most)
    oldest = await event_stream.first_cursor(scripts)
    if oldest and after != "0" and cursor_order(oldest) <= cursor_order(after):
        return entries
    return await archive.events(after, most=most) or entries


async def details(scripts: Scripts, archive: Archive, entries: Sequence[Entry]) -> list[Details]:
    """Return what the stream omits about these events, also of messages that were archived."""
    found = await event_stream.details(scripts, entries)
    missing = [entry for entry, known in zip(entries, found, strict=True) if not known.message]
    incoming = await archive.incoming([_name(each) for each in missing if _is_incoming(each)])
    copies = await archive.messages(sorted({each.fields["message"] for each in missing if each.fields.get("message")}))
    if not incoming and not copies:
        return found
    filled = []
    for entry, known in zip(entries, found, strict=True):
        if known.message:
            filled.append(known)
        elif _is_incoming(entry):
            filled.append(replace(known, message=incoming.get(_name(entry), {})))
        else:
            copy = copies.get(entry.fields.get("message", ""))
            fields = event_stream.outgoing(copy.fields) if copy else {}
            filled.append(replace(known, message=fields, contact_phone=known.contact_phone or fields.get("to", "")))
    return filled


def _is_incoming(entry: Entry) -> bool:
    return entry.fields["type"] in OF_INCOMING


def _name(entry: Entry) -> tuple[str, str]:
    return entry.fields["session"], entry.fields["whatsapp_id"]
