"""Inbox page: conversations of all sessions, the messages of one of them, and the reply box."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from wa_orchestrator.dashboard.html import conversations
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain import conversation
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.conversations.models import (
    ConversationDetail,
    ConversationPage,
    ConversationView,
    ThreadMessage,
    ThreadPage,
)
from wa_orchestrator.orchestrator.api.conversations.routes import ConversationRoutes, ConversationSearch
from wa_orchestrator.store.access import people
from wa_orchestrator.store.conversations import conversation_index, presence, quick_replies
from wa_orchestrator.web.auth import Caller

ROWS: Final = 50
#: More than a screen shows; the page asks for earlier ones as they are scrolled to.
MESSAGES: Final = 30
_NO_LIST: Final = ConversationPage(conversations=[], next=None, waiting=0, open=0, closed=0)
#: What the filter chips show.
SHOWN: Final = ("", "waiting", "mine", "nobody", "closed")
#: Of more sessions a list to choose from is no help; people search.
MOST_SESSIONS: Final = 200
#: Conversations of a state among which a person's own are counted; the count of more ends with a plus.
_MOST_COUNTED: Final = 1_000


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    # Whoever opens a conversation has the list already.
    is_whole = query.get("only") != "thread"
    listed = await _listed(renderer, view, query) if is_whole else _NO_LIST
    detail, thread = await _opened(renderer, view, query)
    names = await _names(renderer, view)
    drafts = await _drafts(renderer, view, [*listed.conversations, *([detail] if detail else [])])
    parts = _parts(renderer, view, query, listed, drafts) | _thread_parts(
        renderer, view, detail, thread, names, also=await _others(renderer, view, detail)
    )
    if is_whole:
        parts["inbox-chips"] = await _chips(renderer, view, query, listed)
    values = {
        "draft": drafts.get(detail.conversation_id, "") if detail else "",
        "query": query,
        "listed": listed,
        "detail": detail,
        "thread": thread,
        "quick": await quick_replies.every(renderer.context.scripts) if detail else {},
        "inbox": renderer.inbox,
        "most_sessions": MOST_SESSIONS,
        "tells_read": renderer.context.settings.inbox_read_marks,
        "entries": [*map(conversations.entry_id, conversations.entries(thread))] if thread else [],
        "first_ms": conversations.ms(thread.messages[-1].at) if thread and thread.messages else 0,
    }
    watch = {"page": "inbox", **{name: query[name] for name in ("c", "show", "session", "q") if query.get(name)}}
    return PageContent("inbox.html" if is_whole else "inbox-thread.html", parts, values, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    listed = await _listed(renderer, view, query)
    detail, thread = await _opened(renderer, view, query)
    made = _parts(renderer, view, query, listed, await _drafts(renderer, view, listed.conversations))
    made["inbox-chips"] = await _chips(renderer, view, query, listed)
    names, also = await _names(renderer, view), await _others(renderer, view, detail)
    return made | _thread_parts(renderer, view, detail, thread, names, also=also)


def _parts(
    renderer: Renderer, view: View, query: Mapping[str, str], listed: ConversationPage, drafts: Mapping[str, str]
) -> dict[str, Markup]:
    m = renderer.inbox
    rows = {
        f"cv-{each.conversation_id}": _row(renderer, view, query, each, drafts.get(each.conversation_id, ""))
        for each in listed.conversations
    }
    return {
        "inbox-head": m.head(view, listed.waiting),
        "inbox-order": m.order(listed.conversations),
    } | rows


def _thread_parts(
    renderer: Renderer,
    view: View,
    detail: ConversationDetail | None,
    thread: ThreadPage | None,
    names: Mapping[str, str],
    *,
    also: Sequence[ConversationView],
) -> dict[str, Markup]:
    if detail is None or thread is None:
        return {}
    m = renderer.inbox
    shown = {conversations.entry_id(each): each for each in conversations.entries(thread)}
    bubbles = {
        f"m-{name}": _bubble(renderer, view, detail, each) if isinstance(each, ThreadMessage) else m.notice(view, each)
        for name, each in shown.items()
    }
    return {
        "thread-order": m.thread_order(shown),
        "thread-head": m.thread_head(view, detail, names),
        "thread-note": m.note(view, detail),
        "reply-eta": m.eta(view, detail),
        "reply-obstacle": m.obstacle(view, detail),
        "facts": m.facts(view, detail, names, also),
    } | bubbles


def _row(renderer: Renderer, view: View, query: Mapping[str, str], each: ConversationView, draft: str) -> Markup:
    session = view.snapshot.rows.get(each.session_id)
    via = (session.state, view.snapshot.called(session)) if session else None
    waits = conversations.waits(view, each)
    shown = (*(query.get(name, "") for name in ("show", "session", "q")), query.get("c") == each.conversation_id)
    key = ("row", view.language, view.today, via, waits, shown, draft, each.model_dump_json())
    return renderer.fragments.get(key, lambda: renderer.inbox.row(view, each, query, waits, draft))


def _bubble(renderer: Renderer, view: View, detail: ConversationDetail, each: ThreadMessage) -> Markup:
    title = conversations.title_of(view, detail)
    key = ("message", view.language, view.today, view.may_change, title, detail.group, each.model_dump_json())
    return renderer.fragments.get(key, lambda: renderer.inbox.message(view, each, detail))


async def _listed(renderer: Renderer, view: View, query: Mapping[str, str]) -> ConversationPage:
    shown = query.get("show", "")
    found: dict[str, Any] = {"limit": ROWS}
    if text := query.get("q", "").strip()[:100]:
        found["search"] = text
    if shown in ("waiting", "closed"):
        found["state"] = shown
    if shown == "mine" and view.person is not None:
        found["assigned_to"] = view.person.account or "-"
    if shown == "nobody":
        found["assigned_to"] = ""
    if view.sees(session := query.get("session", "")) and session in view.snapshot.rows:
        found["session_id"] = session
    try:
        return await _routes(renderer).list_conversations(
            _caller(view), ConversationSearch(**found, cursor=query.get("after") or None)
        )
    except Refused:  # a cursor of an old address
        return await _routes(renderer).list_conversations(_caller(view), ConversationSearch(**found))


async def _chips(renderer: Renderer, view: View, query: Mapping[str, str], listed: ConversationPage) -> Markup:
    own = view.person.account if view.person else ""
    mine = await _count(renderer, view, query, own) if own else view.number(0)
    nobodys = await _count(renderer, view, query, "")
    made: Markup = renderer.inbox.chips(view, query, SHOWN, listed, mine, nobodys)
    return made


async def _count(renderer: Renderer, view: View, query: Mapping[str, str], person: str) -> str:
    """Return how many open conversations a person or ('') nobody answers, of the chosen session or of all."""
    session, rows = query.get("session", ""), view.snapshot.rows
    among = frozenset({session}) if session in rows else frozenset(rows) if view.is_limited else None
    if among is not None:
        among = await renderer.context.session_labels.with_siblings(among)
    scripts = renderer.context.scripts
    count, is_all = await conversation_index.count_assigned(scripts, person, among=among, most=_MOST_COUNTED)
    return view.number(count) + ("" if is_all else "+")


async def _opened(
    renderer: Renderer, view: View, query: Mapping[str, str]
) -> tuple[ConversationDetail | None, ThreadPage | None]:
    chosen, routes, caller = query.get("c", ""), _routes(renderer), _caller(view)
    if not chosen:
        return None, None
    try:
        before = query.get("before") or None
        return await asyncio.gather(
            routes.get_conversation(chosen, caller),
            routes.list_conversation_messages(chosen, caller, before, MESSAGES),
        )
    except Refused:
        return None, None


async def _drafts(renderer: Renderer, view: View, every: Sequence[ConversationView]) -> dict[str, str]:
    """Return what the person has begun to write, by conversation id."""
    if not view.may_change:
        return {}
    names = {name: each.conversation_id for each in every if (name := conversation.parse_id(each.conversation_id))}
    found = await presence.drafts(renderer.context.scripts, list(names), _caller(view).key_id)
    return {names[name]: text for name, text in found.items()}


async def _others(renderer: Renderer, view: View, detail: ConversationDetail | None) -> Sequence[ConversationView]:
    """Return the conversations that other accounts have with the same person, the one with the latest message first."""
    if detail is None or detail.group:
        return ()
    name = detail.contact.phone or f"lid:{detail.contact.lid}"
    return await _routes(renderer).with_contact(name, _caller(view), besides=detail.conversation_id)


async def _names(renderer: Renderer, view: View) -> dict[str, str]:
    """Return the people to whom a conversation can be assigned. Those with a limited view do not see other people."""
    own = view.person.account if view.person else ""
    every = await people.every(renderer.context.scripts)
    return {each.id: each.name for each in every if not view.is_limited or each.id == own}


def _routes(renderer: Renderer) -> ConversationRoutes:
    return renderer.conversations


def _caller(view: View) -> Caller:
    if view.person is None:
        raise Refused("NO_SUCH_PAGE", "There is no such page.", 404)
    return view.person.caller
