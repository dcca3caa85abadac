"""Audit page: what people and keys did, the newest first, and whether the log is whole."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from wa_orchestrator import audit_log
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain.access.audit_chain import Intact
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.store.access import api_keys, audit, people
from wa_orchestrator.store.engine.scripts import Scripts

SHOWN: Final = 100
_SEARCHED: Final = 2000
_REFUSED: Final = ("dashboard.login_failed", "dashboard.code_failed")


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    """Show the entries that match the search."""
    scripts, text = renderer.context.scripts, query.get("q", "").strip().lower()
    entries = [each.fields for each in await audit.read(scripts, before=None, most=_SEARCHED)]
    today_ms = day_bounds_ms(view.now_ms, view.zone)[0]
    today = [each for each in entries if int(each["at"]) >= today_ms]
    found = [each for each in entries if text in " ".join(each.values()).lower()]
    verified = await audit_log.verify_new(renderer.context)
    values = {
        "entries": found[:SHOWN],
        "today": len(today),
        "refused": len([each for each in today if each["action"] in _REFUSED]),
        "refusals": _REFUSED,
        "names": await names_of_targets(scripts),
        "q": query.get("q", ""),
        "chain": verified.last.number if isinstance(verified, Intact) else None,
    }
    return PageContent("audit.html", {}, values, {"page": "audit"})


async def names_of_targets(scripts: Scripts) -> dict[str, str]:
    """Return the names of people and keys, by their ids."""
    accounts = {each.id: each.name for each in await people.every(scripts)}
    return accounts | {each.id: each.name for each in await api_keys.every(scripts)}


async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Return no live parts: entries must not move while somebody reads them."""
    return {}
