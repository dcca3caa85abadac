"""What a search for messages asks for, and whether a message answers it."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus
from wa_orchestrator.domain.messages.search_words import words_of
from wa_orchestrator.store import keys
from wa_orchestrator.store.records import Message

#: The statuses of messages that have ended. A message with another one is never archived.
ENDED_STATUSES = SUCCEEDED | {
    MessageStatus.CANCELLED,
    MessageStatus.EXPIRED,
    MessageStatus.FAILED,
    MessageStatus.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What to search for; None, and no status, match everything. Instants are in milliseconds."""

    to: str | None = None
    session_id: str | None = None
    statuses: Collection[str] = ()
    reference: str | None = None
    batch_id: str | None = None
    text: str | None = None
    """All of its words occur in the message, as whole words."""
    since: int | None = None
    until: int | None = None
    due_from: int | None = None
    due_until: int | None = None

    @property
    def index(self) -> str:
        """The narrowest index in Redis that contains all matches; '' for that by session and status."""
        if self.batch_id is not None:
            return keys.messages_of_batch(self.batch_id)
        if self.reference is not None:
            return keys.messages_with_reference(self.reference)
        if self.to is not None:
            return keys.messages_to(self.to)
        if self.statuses:
            return ""
        return keys.ALL_MESSAGES if self.session_id is None else keys.messages_of_session(self.session_id)

    @property
    def only_waiting(self) -> bool:
        """Whether no message that has ended can match."""
        return bool(self.statuses) and not ENDED_STATUSES.intersection(self.statuses)

    def match(self, message: Message) -> bool:
        """Whether a message matches."""
        pairs = (
            (self.to, message.to),
            (self.session_id, message.session),
            (self.reference, message.reference),
            (self.batch_id, message.batch),
        )
        spans = (
            (self.since, message.accepted_at, self.until),
            (self.due_from, message.due_at or message.accepted_at, self.due_until),
        )
        return (
            (not self.statuses or message.status in self.statuses)
            and all(wanted is None or wanted == value for wanted, value in pairs)
            and all((first is None or first <= at) and (last is None or at <= last) for first, at, last in spans)
            and (self.text is None or set(words_of(self.text)) <= set(words_of(text_in(message.body))))
        )


def text_in(body: str) -> str:
    """Return what a person would search for in a message's content: its text, caption, file name or place."""
    content: dict[str, Any] = json.loads(body or "{}")
    media, location = content.get("media") or {}, content.get("location") or {}
    parts = (content.get("text"), media.get("caption"), media.get("filename"), location.get("name"))
    return "\n".join(str(part) for part in (*parts, location.get("address")) if part)
