"""Messages page: search, and the details of one message."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain.message import DEAD, WAITING, MessageStatus
from wa_orchestrator.domain.pacing.forecast import Eta
from wa_orchestrator.messages.queue_forecast import facts_of, forecast_of, message_eta
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import message_index
from wa_orchestrator.store.records import Message

PAGE_SIZE: Final = 25
#: How many are searched for a status at most.
_SEARCHED: Final = 500
_GROUPS: Final[dict[str, frozenset[MessageStatus]]] = {
    "queued": frozenset({MessageStatus.QUEUED, MessageStatus.SCHEDULED}),
    "sending": frozenset({MessageStatus.SENDING}),
    "sent": frozenset({MessageStatus.SENT}),
    "delivered": frozenset({MessageStatus.DELIVERED}),
    "read": frozenset({MessageStatus.READ}),
    "failed": frozenset({MessageStatus.FAILED}),
    "unknown": frozenset({MessageStatus.UNKNOWN}),
    "expired": frozenset({MessageStatus.EXPIRED}),
    "cancelled": frozenset({MessageStatus.CANCELLED}),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a message's timeline."""

    at_ms: int
    status: str
    note: str
    waited_ms: int
    attempt: int


@dataclass(frozen=True, slots=True)
class MessageDetails:
    """Everything about one message."""

    message: Message
    text: str
    kind: str
    steps: list[Step]
    leaves_at_ms: int | None
    because: str

    @property
    def can_cancel(self) -> bool:
        """Whether no worker has claimed it yet."""
        return self.message.status in WAITING

    @property
    def can_retry(self) -> bool:
        """Whether it was given up and may be retried."""
        return self.message.status in DEAD


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    """Show the results of a search, and one message."""
    found, older = await search(renderer, query)
    selected = query.get("id", "") or (found[0].id if found else "")
    details = await details_of(renderer, selected) if selected else None
    parts = _parts(renderer, view, found, details, query)
    values = {
        "found": found,
        "details": details,
        "older": older,
        "query": query,
        "groups": list(_GROUPS),
        "add": query.get("add", ""),
    }
    watch = {
        "page": "messages",
        "id": details.message.id if details else "",
        "ids": ",".join(each.id for each in found),
    }
    newest = found[0].accepted_at if found and not query.get("before") else 0
    return PageContent("messages.html", parts, values, watch | {"newest": str(newest), "q": query.get("q", "")})


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the rows on the page and the details of the open message."""
    ids = [name for name in query.get("ids", "").split(",") if name][:PAGE_SIZE]
    found = await records.messages(renderer.context.scripts, ids)
    details = await details_of(renderer, query["id"]) if query.get("id") else None
    made = _parts(renderer, view, found, details, query)
    newest = int(query.get("newest") or 0) if query.get("newest", "").isdigit() else 0
    newer = 0
    if (newest or not ids) and not query.get("q"):
        newer = await message_index.count_newer(renderer.context.scripts, newest)
    return made | {"newer": renderer.macros.newer(view, newer)}


def _parts(
    renderer: Renderer, view: View, found: list[Message], details: MessageDetails | None, query: Mapping[str, str]
) -> dict[str, Markup]:
    m = renderer.macros
    made = {
        "message-details": m.message_details(view, details),
        "newer": m.newer(view, 0),
    }
    return made | {
        f"msg-{each.id}": m.message_row(view, each, details.message.id if details else "", query.get("q", ""))
        for each in found
    }


async def search(renderer: Renderer, query: Mapping[str, str]) -> tuple[list[Message], str]:
    """Find messages by recipient, id, reference, session and status. The second value is the cursor of older ones."""
    text, before = query.get("q", "").strip(), query.get("before", "")
    if text.startswith("m_"):
        one = await records.message(renderer.context.scripts, text)
        return ([one] if one else []), ""
    scripts, session = renderer.context.scripts, query.get("session", "")
    wanted = _GROUPS.get(query.get("status", ""))
    found: list[Message] = []
    until_ms = int(before) - 1 if before.isdigit() else None
    if wanted and not text:
        entries = await message_index.page_of_statuses(scripts, wanted, session, until_ms=until_ms, most=PAGE_SIZE + 1)
    else:
        most = _SEARCHED if wanted else PAGE_SIZE + 1
        entries = await message_index.page(scripts, _index(text, session), until_ms=until_ms, most=most)
    ids = [message_id for message_id, _ in entries]
    for at in range(0, len(ids), PAGE_SIZE + 1):
        chunk = await records.messages(renderer.context.scripts, ids[at : at + PAGE_SIZE + 1])
        found += [each for each in chunk if wanted is None or each.status in wanted]
        if len(found) > PAGE_SIZE:
            break
    shown = found[:PAGE_SIZE]
    return shown, str(shown[-1].accepted_at) if len(found) > PAGE_SIZE else ""


def _index(text: str, session: str) -> str:
    digits = "".join(each for each in text if each.isdigit())
    if text and len(digits) >= 8 and len(digits) <= 15 and set(text) <= set("+-() .0123456789"):
        return keys.messages_to(digits)
    if text:
        return keys.messages_with_reference(text)
    return keys.messages_of_session(session) if session else keys.ALL_MESSAGES


async def details_of(renderer: Renderer, message_id: str) -> MessageDetails | None:
    """Return a message with its timeline and, while it waits, what for and until when."""
    message = await records.message(renderer.context.scripts, message_id)
    if message is None:
        return None
    steps = _steps(await records.timeline(renderer.context.scripts, message_id))
    leaves, because = None, ""
    eta = await _eta(renderer.context, message)
    if eta is not None:
        leaves, because = eta.at_ms, str(eta.because)
    text, kind = content(message)
    return MessageDetails(message, text, kind, steps, leaves, because)


async def _eta(context: Context, message: Message) -> Eta | None:
    session = await records.session(context.scripts, message.session)
    if session is None or not session.phone:
        return await message_eta(context.scripts, None, message, lock_until_ms=0, now_ms=0)
    facts = await facts_of(context.scripts, session)
    forecast = forecast_of(context.settings, session, facts)
    lock_until_ms = facts.phone.lock_until
    return await message_eta(context.scripts, forecast, message, lock_until_ms=lock_until_ms, now_ms=facts.now_ms)


def _steps(lines: list[tuple[int, str, str]]) -> list[Step]:
    steps, before, attempt = [], 0, 0
    for at_ms, status, note in lines:
        attempt += status == MessageStatus.SENDING
        steps.append(Step(at_ms, status, note, at_ms - before if before else 0, attempt))
        before = at_ms
    return steps


def content(message: Message) -> tuple[str, str]:
    """Return the text of a message (or caption, file name, place) and its kind."""
    kind = message.kind or "text"
    raw = json.loads(message.body or "{}")
    if "text" in raw:
        return str(raw["text"]), kind
    if "media" in raw:
        media = raw["media"]
        return str(media.get("caption") or media.get("filename") or ""), kind
    place = raw.get("location") or {}
    return str(
        place.get("name") or ", ".join(str(place.get(each, "")) for each in ("latitude", "longitude")) if place else ""
    ), kind
