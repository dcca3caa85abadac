"""People page: accounts, who has no second factor, and who is logged in."""

from collections.abc import Mapping

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain.access.permissions import Role
from wa_orchestrator.store.access import logins, people


async def show(renderer: Renderer, view: View, _query: Mapping[str, str]) -> PageContent:
    scripts = renderer.context.scripts
    found = await people.every(scripts)
    values = {
        # Whoever lacks a second factor comes first.
        "people": sorted(found, key=lambda each: bool(each.totp)),
        "without_factor": len([each for each in found if not each.totp]),
        "logins": await logins.every(scripts),
        "roles": list(Role),
        "labels_known": sorted({row.session.label for row in view.snapshot.rows.values() if row.session.label}),
    }
    return PageContent("people.html", {}, values, {"page": "people"})


async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Return no live parts: the page changes when somebody acts on it."""
    return {}
