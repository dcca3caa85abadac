"""What templates say about conversations: names, times, sizes, looks."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.html.locale import Locale
from wa_orchestrator.domain.conversation import ConversationState
from wa_orchestrator.domain.messages.amendment import EDITABLE
from wa_orchestrator.domain.messages.message import SUCCEEDED
from wa_orchestrator.orchestrator.api.conversations.models import (
    ConversationView,
    ReactionView,
    ThreadMessage,
    ThreadNotice,
    ThreadPage,
)

_LONG_WAIT_MS: Final = 600_000
#: What an answer waits for in the ordinary course of things; the time says it all.
CALM: Final = frozenset({"NOTHING", "PAUSE", "MINUTE_IS_FULL", "BEHIND_OTHERS", "IN_FLIGHT"})
#: What people react with most; phones offer the same.
EMOJIS: Final = ("👍", "❤️", "😂", "😮", "😢", "🙏")
#: Statuses by how a bubble looks.
LOOKS: Final = {
    "queued": "queued", "scheduled": "queued", "sending": "queued", "failed": "failed", "expired": "failed",
    "unknown": "warn",
}  # fmt: skip


def ms(stamp: str | None) -> int:
    """Return a timestamp of the API in milliseconds; 0 for none."""
    return int(datetime.fromisoformat(stamp).timestamp() * 1000) if stamp else 0


def title_of(view: Locale, each: ConversationView) -> str:
    """Return what a conversation is called: the name of the contact or the group, or the number."""
    names = each.contact
    if each.group:
        return names.name or str(view.t("inbox.group"))
    return names.name or (f"+{names.phone}" if names.phone else str(view.t("inbox.hidden_number")))


def waits(view: Locale, each: ConversationView) -> Markup:
    """Return how long a contact has been waiting, from ten minutes on.

    In whole minutes: a text that changes with every second would have every row sent again with every event.
    """
    waited_ms = view.now_ms - ms(each.waiting_since)
    if each.state != ConversationState.WAITING or not each.waiting_since or waited_ms < _LONG_WAIT_MS:
        return Markup("")
    minutes = replace(view, now_ms=view.now_ms - waited_ms % 60_000)
    return view.t("inbox.waits", span=minutes.ago(ms(each.waiting_since)))


def entries(thread: ThreadPage) -> list[ThreadMessage | ThreadNotice]:
    """Return messages and notices as they stand in the thread, the oldest first."""
    both: list[ThreadMessage | ThreadNotice] = [*reversed(thread.messages), *thread.notices]
    return sorted(both, key=lambda each: ms(each.at))


def entry_id(each: ThreadMessage | ThreadNotice) -> str:
    return each.message_id if isinstance(each, ThreadMessage) else each.notice_id


def acts_on(each: ThreadMessage) -> str:
    """Return what a person may do to a message: quote, react, edit, delete. Nothing before WhatsApp has it.

    How long one may be edited and deleted is known to the page's script, and decided by the API.
    """
    is_ours = each.direction == "out"
    if each.deleted_at or (each.status is not None and each.status not in SUCCEEDED):
        return ""
    may_edit = is_ours and each.kind in EDITABLE and bool(each.text) and (each.kind == "text" or not each.elsewhere)
    return " ".join(["quote", "react", *(["edit"] if may_edit else []), *(["delete"] if is_ours else [])])


def author_of(view: Locale, each: ConversationView, phone: str | None) -> str:
    """Return who wrote in a conversation: the contact, or in a group the member with this phone."""
    if not each.group:
        return title_of(view, each)
    return f"+{phone}" if phone else str(view.t("inbox.hidden_number"))


def reacted(view: Locale, each: ConversationView, reaction: ReactionView) -> str:
    """Return who reacted to a message."""
    sender = reaction.sender or ""
    return author_of(view, each, sender if sender.isdigit() else None) if sender else view.plain("inbox.you")


def clock_of(seconds: int | None) -> str:
    """Return a length as players show it; dashes where it is not known before it is played."""
    return f"{seconds // 60}:{seconds % 60:02d}" if seconds else "–:––"


def size_of(size: int | None) -> str:
    """Return a file's size in the unit that people use."""
    if not size:
        return ""
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{max(1, size // 1000)} kB"


def initials(title: str) -> str:
    return "".join(word[0] for word in title.split()[:2] if word).upper()


def share(count: int, votes: Mapping[str, int]) -> int:
    return round(100 * count / max(1, max(votes.values(), default=1)))
