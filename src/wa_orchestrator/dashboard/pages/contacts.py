"""Contacts page: the people who wrote, and one of them with the sessions that spoke with them."""

from collections.abc import Mapping
from typing import Any, Final

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.conversations.models import ContactPage, ContactView, ConversationDetail
from wa_orchestrator.web.auth import Caller

ROWS: Final = 50
#: Conversations of one contact that are shown; hardly anybody has so many numbers of ours.
_TALKS: Final = 10


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent | None:
    if view.person is None:
        return None
    caller, chosen = view.person.caller, None
    listed = await _listed(renderer, caller, query)
    talks: list[ConversationDetail] = []
    if who := query.get("who", "")[:80]:
        chosen = next(iter(await renderer.contacts.of([who], caller)), None)
        talks = await _talks(renderer, caller, chosen)
    values: dict[str, Any] = {"query": query, "listed": listed, "chosen": chosen, "talks": talks}
    return PageContent("contacts.html", {}, values, {"page": "contacts"})


async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Return no live parts: people look somebody up here; what comes in is seen in the inbox."""
    return {}


async def _listed(renderer: Renderer, caller: Caller, query: Mapping[str, str]) -> ContactPage:
    text = query.get("q", "").strip()[:100] or None
    try:
        return await renderer.contacts.list_contacts(caller, text, query.get("after") or None, ROWS)
    except Refused:  # a cursor of an old address
        return await renderer.contacts.list_contacts(caller, text, None, ROWS)


async def _talks(renderer: Renderer, caller: Caller, chosen: ContactView | None) -> list[ConversationDetail]:
    found = []
    for each in chosen.conversations[:_TALKS] if chosen else ():
        try:
            found.append(await renderer.conversations.get_conversation(each, caller))
        except Refused:  # erased meanwhile
            continue
    return found
