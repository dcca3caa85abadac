"""Chats that a phone had when its device was linked: kept as conversations where LINK_HISTORY says so."""

import re
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing.limits import DAY_MS
from wa_orchestrator.domain.workers.worker_events import LinkedChat, LinkHistory, PastText, WorkerEvent
from wa_orchestrator.store.conversations import imported_conversations
from wa_orchestrator.store.conversations.imported_conversations import ImportedConversation, ImportedText
from wa_orchestrator.store.records import Session

_DIGITS: Final = re.compile(r"[0-9]{5,20}")
_GROUP: Final = re.compile(r"[0-9-]{5,41}@g\.us")
_WHATSAPP_ID: Final = re.compile(r"[A-Za-z0-9_.-]{4,64}")
_LONGEST_NAME, _LONGEST_TEXT = 100, 4_096
_MOST_TEXTS: Final = 20

log = structlog.get_logger(__name__)


async def on_link_history(context: Context, session: Session, event: WorkerEvent[LinkHistory]) -> None:
    """Handle LINK_HISTORY: store what is not older than retention. What the setting does not want is dropped unread."""
    settings, scripts = context.settings, context.scripts
    if settings.link_history == "off" or not session.phone:
        return
    chats = event.payload.chats
    if not await imported_conversations.spend(scripts, session.id, len(chats)):
        log.warning("history.too_long", session=session.id, chats=len(chats))
        return
    now_ms = await scripts.now_ms()
    kept_ms, keep_texts_ms = settings.message_retention_days * DAY_MS, settings.body_retention_days * DAY_MS
    count = 0
    for chat in chats:
        texts = _texts(chat, now_ms - keep_texts_ms, now_ms) if settings.link_history == "texts" else ()
        found = _conversation(session, chat, texts, now_ms)
        if found.contact and found.last_at_ms > now_ms - kept_ms:
            count += await imported_conversations.put(scripts, found, keep_ms=keep_texts_ms)
    log.info("history.imported", session=session.id, conversations=count)


def _conversation(
    session: Session, chat: LinkedChat, texts: tuple[ImportedText, ...], now_ms: int
) -> ImportedConversation:
    """Return a chat as it is stored. Without a name that can be one it has no contact."""
    group = chat.group or ""
    names = ("", "") if group else (chat.phone or "", chat.lid or "")
    phone, lid = (name if _DIGITS.fullmatch(name) else "" for name in names)
    name = "".join(sign if sign.isprintable() else " " for sign in chat.name or "").strip()[:_LONGEST_NAME]
    group = group if _GROUP.fullmatch(group) else ""
    return ImportedConversation(session.id, session.phone, phone, lid, group, name, min(chat.at_ms, now_ms), texts)


def _texts(chat: LinkedChat, oldest_ms: int, now_ms: int) -> tuple[ImportedText, ...]:
    wanted = [each for each in chat.texts[:_MOST_TEXTS] if _is_kept(each, oldest_ms, now_ms)]
    made = [ImportedText(each.whatsapp_id, each.at_ms, each.text[:_LONGEST_TEXT], each.from_me) for each in wanted]
    return tuple(sorted(made, key=lambda each: each.at_ms, reverse=True))


def _is_kept(text: PastText, oldest_ms: int, now_ms: int) -> bool:
    return bool(oldest_ms < text.at_ms <= now_ms and _WHATSAPP_ID.fullmatch(text.whatsapp_id))
