"""Finds the message that a request names, by our id or by WhatsApp's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.domain.access.permissions import Reach
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.domain.messages.message import MessageStatus, message_id_of
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message
from wa_orchestrator.store.sessions.labels import SessionLabels


@dataclass(frozen=True, slots=True)
class NamedMessage:
    """A message of a conversation: in which chat of which phone it is, and who wrote it."""

    message_id: str
    whatsapp_id: str
    session: str
    phone: str
    """The phone of ours that has it; '' where its session has none any more."""
    chat: str
    """The other side, as a recipient: a phone, `lid:…` or a group."""
    is_ours: bool
    author_phone: str
    author_lid: str
    kind: str
    text: str
    at_ms: int
    status: MessageStatus | None = None
    """Of one that we sent through the API; others are what WhatsApp has."""


async def find(scripts: Scripts, archive: Archive, name: str, sessions: Sequence[str]) -> NamedMessage | None:
    """Return the message with this name; None if there is none.

    A sender chooses WhatsApp's id of his messages, so one that is not ours is looked for in these sessions only.
    """
    ours = name if name.startswith("m_") else message_id_of(name)
    if ours and (sent := await message_lookup.message(scripts, archive, ours)):
        return _sent(sent)
    pairs = [incoming.parse_id(name)] if name.startswith("i_") else [(session, name) for session in sessions]
    for pair in pairs:
        if pair and (fields := await message_lookup.incoming(scripts, archive, *pair)):
            session = await records.session(scripts, pair[0])
            return _received(pair, session.phone if session else "", fields)
    return None


async def is_reached(labels: SessionLabels, reach: Reach, found: NamedMessage) -> bool:
    """Whether a message is reached: one that came in by any session of its account, one of ours by its own."""
    reaches = await (labels.filter_for if found.is_ours else labels.account_filter_for)(reach)
    return reaches(found.session)


def _sent(message: Message) -> NamedMessage:
    body: dict[str, Any] = json.loads(message.body or "{}")
    media = body.get("media") or {}
    return NamedMessage(
        message.id, message.whatsapp_id, message.session, message.phone, message.to, True, "", "",
        message.kind or "text", str(body.get("text") or media.get("caption") or ""), message.sent_at or 0,
        message.status,
    )  # fmt: skip


def _received(pair: tuple[str, str], phone: str, fields: Mapping[str, str]) -> NamedMessage:
    session, whatsapp_id = pair
    author, lid = fields.get("contact_phone", ""), fields.get("contact_lid", "")
    chat = fields.get("group") or author or (f"lid:{lid}" if lid else "")
    is_ours = fields.get("direction") == "out"
    at_ms = int(fields.get("at") or fields.get("received_at") or 0)
    return NamedMessage(
        incoming.id_of(session, whatsapp_id), whatsapp_id, session, phone, chat, is_ours,
        "" if is_ours else author, "" if is_ours else lid, fields.get("kind", "text"), fields.get("text", ""), at_ms,
    )  # fmt: skip
