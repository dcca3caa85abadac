"""Messages page: search, and the details of one message."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain import phone, whole_number
from wa_orchestrator.domain.messages.message import DEAD, WAITING, MessageStatus
from wa_orchestrator.domain.messages.message import MessageStatus as S
from wa_orchestrator.domain.pacing.forecast import Eta
from wa_orchestrator.messages import message_lookup, message_search
from wa_orchestrator.messages.queue_forecast import NO_LIMIT, facts_of, forecast_of, message_eta
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import message_index
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.records import Message

PAGE_SIZE: Final = 25
#: The filters of the page; `queued` is everything that waits.
_FILTERS: Final[dict[str, frozenset[MessageStatus]]] = {"queued": WAITING} | {
    str(status): frozenset({status})
    for status in (S.SENDING, S.SENT, S.DELIVERED, S.READ, S.FAILED, S.UNKNOWN, S.EXPIRED, S.CANCELLED)
}
#: What cannot be cancelled any more.
_OUT_OF_REACH: Final = frozenset({S.SENDING, S.SENT, S.DELIVERED, S.READ})


@dataclass(frozen=True, slots=True)
class TimelineStep:
    at_ms: int
    status: str
    note: str
    waited_ms: int
    attempt: int


@dataclass(frozen=True, slots=True)
class MessageDetails:
    message: Message
    text: str
    steps: list[TimelineStep]
    eta: Eta | None
    """While it waits: what for, and until when."""

    @property
    def can_cancel(self) -> bool:
        """Whether no worker has claimed it yet."""
        return self.message.status in WAITING

    @property
    def too_late_to_cancel(self) -> bool:
        """Whether a worker or WhatsApp has it; one that expired or was cancelled has ended without."""
        return self.message.status in _OUT_OF_REACH

    @property
    def can_retry(self) -> bool:
        """Whether it was given up and may be retried."""
        return self.message.status in DEAD


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    found, older = await search(renderer, view, query)
    selected = query.get("id", "") or (found[0].id if found else "")
    details = await details_of(renderer, view, selected) if selected else None
    parts = _parts(renderer, view, found, details, query)
    values = {"found": found, "older": older, "query": query, "groups": list(_FILTERS)}
    watch = {
        "page": "messages",
        "id": details.message.id if details else "",
        "ids": ",".join(each.id for each in found),
        "newest": str(found[0].accepted_at if found and not query.get("before") else 0),
        "q": query.get("q", ""),
        "narrowed": "1" if any(query.get(name) for name in ("q", "status", "session")) else "",
    }
    return PageContent("messages.html", parts, values, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    ids = [name for name in query.get("ids", "").split(",") if name][:PAGE_SIZE]
    by_id = await message_lookup.messages(renderer.context.scripts, renderer.context.archive, ids)
    found = [by_id[name] for name in ids if name in by_id and view.sees(by_id[name].session)]
    details = await details_of(renderer, view, query["id"]) if query.get("id") else None
    made = _parts(renderer, view, found, details, query)
    newest = whole_number.parse(query.get("newest", "")) or 0
    newer = 0
    if (newest or not ids) and not query.get("narrowed") and not view.is_limited:  # the count is of all messages
        newer = await message_index.count_newer(renderer.context.scripts, newest)
    return made | {"newer": renderer.macros.newer(view, newer)}


def _parts(
    renderer: Renderer, view: View, found: list[Message], details: MessageDetails | None, query: Mapping[str, str]
) -> dict[str, Markup]:
    m = renderer.macros
    selected = details.message.id if details else ""
    rows = {f"msg-{each.id}": m.message_row(view, each, selected, query.get("q", "")) for each in found}
    return {"message-details": m.message_details(view, details), "newer": m.newer(view, 0)} | rows


async def search(renderer: Renderer, view: View, query: Mapping[str, str]) -> tuple[list[Message], str]:
    """Find messages by recipient, id, reference or words, session and status. The second value is the cursor of older
    ones.
    """
    context, text = renderer.context, query.get("q", "").strip()
    if text.startswith("m_"):
        one = await message_lookup.message(context.scripts, context.archive, text)
        return [one] if one and view.sees(one.session) else [], ""
    digits = "".join(each for each in text if each.isdigit())
    is_phone = 8 <= len(digits) <= 15 and set(text) <= set("+-() .0123456789")
    if is_phone:
        with suppress(phone.BadPhone):  # then it is searched as it was written
            digits = phone.parse(text)
    before = whole_number.parse(query.get("before", ""))
    filters = Filters(
        to=digits if is_phone else None,
        reference=text if text and not is_phone else None,
        session_id=query.get("session") or None,
        statuses=_FILTERS.get(query.get("status", ""), ()),
        until=None if before is None else before - 1,
    )
    among = frozenset(view.snapshot.rows) if view.is_limited else None
    both = (context.scripts, context.archive)
    found, _ = await message_search.search(*both, filters, among=among, limit=PAGE_SIZE + 1)
    if not found and filters.reference:  # then it is words of a text
        filters = replace(filters, reference=None, text=text)
        found, _ = await message_search.search(*both, filters, among=among, limit=PAGE_SIZE + 1)
    shown = found[:PAGE_SIZE]
    return shown, str(shown[-1].accepted_at) if len(found) > PAGE_SIZE else ""


async def details_of(renderer: Renderer, view: View, message_id: str) -> MessageDetails | None:
    """Return a message with its timeline and, while it waits, what for and until when."""
    both = (renderer.context.scripts, renderer.context.archive)
    message = await message_lookup.message(*both, message_id)
    if message is None or not view.sees(message.session):
        return None
    steps = _steps(await message_lookup.timeline(*both, message_id))
    return MessageDetails(message, content(message), steps, await _eta(renderer.context, message))


async def _eta(context: Context, message: Message) -> Eta | None:
    session = await records.session(context.scripts, message.session)
    if session is None or not session.phone:
        return await message_eta(context.scripts, None, message, new_contacts=NO_LIMIT, now_ms=0)
    facts = await facts_of(context.scripts, session)
    forecast = forecast_of(context.settings, session, facts)
    limit, now_ms = facts.phone.new_contacts, facts.now_ms
    return await message_eta(context.scripts, forecast, message, new_contacts=limit, now_ms=now_ms)


def _steps(lines: list[tuple[int, str, str]]) -> list[TimelineStep]:
    steps, before, attempt = [], 0, 0
    for at_ms, status, note in lines:
        attempt += status == MessageStatus.SENDING
        steps.append(TimelineStep(at_ms, status, note, at_ms - before if before else 0, attempt))
        before = at_ms
    return steps


def content(message: Message) -> str:
    """Return the text of a message, or its caption, file name or place."""
    raw = json.loads(message.body or "{}")
    media, place = raw.get("media") or {}, raw.get("location") or {}
    point = f"{place.get('latitude', '')}, {place.get('longitude', '')}" if place else ""
    return str(raw.get("text") or media.get("caption") or media.get("filename") or place.get("name") or point)
