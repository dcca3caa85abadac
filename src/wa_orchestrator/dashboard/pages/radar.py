"""Radar page: what WhatsApp sends that no worker knows, since when, and how many sessions met it."""

from collections.abc import Mapping

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.store.events import drift


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    return PageContent("radar.html", await parts(renderer, view, query), watch={"page": "radar"})


async def parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    shapes = await drift.everything(renderer.context.scripts)
    return {"radar": renderer.macros.radar(view, shapes, len(view.snapshot.rows))}
