"""Groups page of a session: the groups of its account, and one of them with its members, its link and who asks to join.

Everything is asked from WhatsApp when the page is opened; nothing of it is stored.
"""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.dashboard.routes.actions import error_sentence
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.api.groups import GROUP_ID


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent | None:
    row, person = view.snapshot.rows.get(query.get("id", "")), view.person
    if row is None or person is None:
        return None
    values: dict[str, Any] = {"row": row, "groups": None, "group": None, "invite": "", "requests": (), "trouble": ""}
    routes, caller, chosen = renderer.groups, person.caller, query.get("group", "")
    try:
        values["groups"] = (await routes.list_groups(row.id, caller)).groups
        if GROUP_ID.fullmatch(chosen):
            group = await routes.get_group(row.id, chosen, caller)
            values["group"] = group
            if group.admin and view.may_change:
                values["invite"] = (await routes.get_group_link(row.id, chosen, caller)).link
                values["requests"] = (await routes.list_join_requests(row.id, chosen, caller)).requests
    except (Refused, Unavailable) as error:
        values["trouble"] = error_sentence(error.code, error.text, view)
    return PageContent("groups.html", {}, values, {"page": "groups"})


async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Return no live parts: the page changes when somebody acts on it."""
    return {}
