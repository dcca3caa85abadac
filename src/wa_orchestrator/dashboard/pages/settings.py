"""Settings page: API keys, webhooks, alerts, audit log."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.dashboard.pages.audit import names_of_targets
from wa_orchestrator.domain.access.permissions import Scope
from wa_orchestrator.store.access import api_keys, audit
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import webhooks

_AUDIT_SHOWN = 30
_DELIVERIES_SHOWN = 20


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    scripts = renderer.context.scripts
    keys = await api_keys.every(scripts)
    values = {
        "keys": keys,
        "limits": {key.id: [*chain(*api_keys.encode_reach(key.reach).values())] for key in keys},
        "names": await names_of_targets(scripts),
        "audit": [entry.fields for entry in await audit.read(scripts, before=None, most=_AUDIT_SHOWN)],
        "scopes": list(Scope),
        "settings": renderer.context.settings,
    }
    return PageContent("settings.html", await parts(renderer, view, query), values, {"page": "settings"})


async def parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    scripts = renderer.context.scripts
    hooks = [
        (hook, await webhooks.state(scripts, hook.id), await _deliveries(scripts, hook.id))
        for hook in (await webhooks.every(scripts)).values()
    ]
    return {"webhooks": renderer.macros.webhooks(view, hooks)}


async def _deliveries(scripts: Scripts, webhook_id: str) -> list[dict[str, Any]]:
    found = await webhooks.log(scripts, webhook_id, most=_DELIVERIES_SHOWN)
    return [
        raw | {"at_ms": int(float(raw["made_at"])), "next_at_ms": int(float(raw.get("next_at") or 0))} for raw in found
    ]
