"""Makes views of messages: one line of each for lists, everything for threads."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from wa_orchestrator.domain.amendments import Amended
from wa_orchestrator.domain.messages.incoming import FILES, id_of, kind_of
from wa_orchestrator.domain.messages.message import message_id_of
from wa_orchestrator.domain.pacing.forecast import Eta
from wa_orchestrator.messages.conversation_thread import ThreadItem
from wa_orchestrator.orchestrator.api.conversations.models import (
    ContactNames,
    Preview,
    ReactionView,
    ThreadMessage,
    ThreadNotice,
    WaitingView,
)
from wa_orchestrator.store.conversations import thread_notices
from wa_orchestrator.store.conversations.thread_notices import Notice
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import text_in
from wa_orchestrator.store.records import Message
from wa_orchestrator.texts import catalogue
from wa_orchestrator.texts.catalogue import text
from wa_orchestrator.timestamps import iso

_PREVIEW: Final = 120


def preview(item: ThreadItem) -> Preview:
    """Return the message of an item in one line."""
    message = item.message
    content = _words_of_sent(message) if isinstance(message, Message) else message.fields.get("text", "")
    return Preview(
        message_id=item.id,
        direction=_direction(message),
        kind=_kind(message),
        text=" ".join(content.split())[:_PREVIEW],
        status=message.status if isinstance(message, Message) else None,
        at=iso(item.at_ms),
    )


def view(item: ThreadItem, eta: Eta | None, language: str) -> ThreadMessage:
    """Return the message of an item with everything that is known of it."""
    message, amended = item.message, _amended(item)
    fields = _of_sent(message, eta, language) if isinstance(message, Message) else _of_received(message)
    if amended.text is not None:
        fields |= {"text": amended.text, "original_text": fields.get("text")}
    if amended.deleted_at_ms:
        fields |= dict.fromkeys(("text", "original_text", "media", "location", "poll", "reply_to"))
        fields |= {"has_file": False, "has_thumbnail": False, "contacts": []}
    blank: dict[str, Any] = dict.fromkeys(
        ("text", "status", "reason", "reason_text", "waiting", "media", "location", "poll", "reply_to", "original_text")
    )
    blank |= {"sender": None, "elsewhere": False, "has_file": False, "contacts": [], "forwarded": False}
    return ThreadMessage(
        **blank | {"view_once": False, "has_thumbnail": False} | fields,
        message_id=item.id,
        whatsapp_id=item.whatsapp_id,
        direction=_direction(message),
        at=iso(item.at_ms),
        kind=_kind(message),
        votes=dict(amended.votes),
        reactions=[ReactionView.of(None, emoji=emoji, sender=who) for who, emoji in amended.reactions.items()],
        edited_at=iso(amended.edited_at_ms),
        deleted_at=iso(amended.deleted_at_ms),
    )


def notice(at_ms: int, noted: Notice) -> ThreadNotice:
    """Return a notice as the API shows it."""
    is_call = noted.kind == thread_notices.CALL
    return ThreadNotice(
        notice_id="n_" + id_of(noted.session, noted.whatsapp_id).removeprefix("i_"),
        kind="call" if is_call else "undecryptable",
        at=iso(at_ms),
        outcome=noted.what if is_call else None,
        video=noted.video,
        reason=None if is_call else noted.what,
    )


def _amended(item: ThreadItem) -> Amended:
    """Return what became of a message. The record of one that we sent says what we did to it, and has the new text."""
    message, amended = item.message, item.amended
    if not isinstance(message, Message):
        return amended
    deleted = amended.deleted_at_ms or message.deleted_at
    if message.edited_at > amended.edited_at_ms:  # here, after the phone did
        return replace(amended, text=None, edited_at_ms=message.edited_at, deleted_at_ms=deleted)
    return replace(amended, deleted_at_ms=deleted)


def _words_of_sent(message: Message) -> str:
    return "" if message.deleted_at else text_in(message.body)


def _of_sent(message: Message, eta: Eta | None, language: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(message.body or "{}")
    media = content.get("media") or {}
    failure = catalogue.message_failure(language, message.reason, message.status)
    waiting = eta and WaitingView(
        because=eta.because, text=text(language, f"wait_reason.{eta.because}"), eta=iso(eta.at_ms or 0)
    )
    known = {name: media[name] for name in ("mimetype", "filename", "size") if media.get(name) is not None}
    return {
        "text": content.get("text") or media.get("caption"),
        "status": message.status,
        "reason": message.reason,
        "reason_text": failure if message.reason else None,
        "waiting": waiting,
        "media": known or None,
        "has_file": bool(media.get("upload")) and not media.get("viewOnce"),
        "location": content.get("location"),
        "contacts": content.get("contacts") or [],
        "poll": content.get("poll"),
        "reply_to": _quote(message.session, content.get("replyTo")),
        "view_once": bool(media.get("viewOnce")),
    }


def _of_received(copy: IncomingCopy) -> dict[str, Any]:
    fields, parts = copy.fields, json.loads(copy.fields.get("parts", "{}"))
    is_ours = fields.get("direction") == "out"
    return {
        "sender": None if is_ours else sender_of(copy),
        "text": fields.get("text"),
        "elsewhere": is_ours,
        "media": json.loads(fields["media"]) if "media" in fields else None,
        "has_file": "media" in fields and kind_of(fields.get("kind", "")) in FILES and not parts.get("viewOnce"),
        "has_thumbnail": bool(parts.get("hasThumbnail")),
        "location": json.loads(fields["location"]) if "location" in fields else None,
        "contacts": parts.get("contacts") or [],
        "poll": parts.get("poll"),
        "reply_to": _quote(copy.session, parts.get("replyTo")),
        "forwarded": bool(parts.get("forwarded")),
        "view_once": bool(parts.get("viewOnce")),
    }


def _quote(session: str, quoted: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a message quotes, with our id of it."""
    return {"messageId": _id_of(session, quoted["whatsappId"]), **quoted} if quoted else None


def sender_of(copy: IncomingCopy) -> ContactNames:
    named: Callable[[str], str] = lambda name: copy.fields.get(name, "")  # noqa: E731 (three of the same)
    return ContactNames(phone=named("contact_phone"), lid=named("contact_lid"), name=named("push_name"))


def _id_of(session: str, whatsapp_id: str) -> str:
    return message_id_of(whatsapp_id) or id_of(session, whatsapp_id)


def _direction(message: Message | IncomingCopy) -> Any:
    return "out" if isinstance(message, Message) else message.fields.get("direction") or "in"


def _kind(message: Message | IncomingCopy) -> str:
    return (message.kind if isinstance(message, Message) else message.fields.get("kind", "")) or "text"
