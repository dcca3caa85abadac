"""Settings page: API keys, webhooks, alerts, audit log."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.store.access import api_keys, audit
from wa_orchestrator.store.events import webhooks

_AUDIT_SHOWN = 30
_DELIVERIES_SHOWN = 20


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    """Show the settings of administrators, without secrets."""
    settings = renderer.context.settings
    values = {
        "keys": await api_keys.every(renderer.context.scripts),
        "audit": [
            _audit_entry(entry.fields)
            for entry in await audit.read(renderer.context.scripts, before=None, most=_AUDIT_SHOWN)
        ],
        "scopes": list(api_keys.Scope),
        "alerts": {
            "telegram": settings.telegram_bot_token is not None,
            "webhook": settings.alert_webhook_url is not None,
        },
        "facts": {
            "timezone": settings.timezone,
            "preset": settings.pacing_preset,
            "runner": settings.runner,
        },
        "query": query,
    }
    return PageContent("settings.html", await parts(renderer, view, query), values, {"page": "settings"})


async def parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the live parts: webhooks and their deliveries."""
    return {"webhooks": renderer.macros.webhooks(view, await hooks(renderer))}


async def hooks(renderer: Renderer) -> list[dict[str, Any]]:
    """Return the webhooks, without their secrets, with their latest deliveries."""
    scripts = renderer.context.scripts
    found = []
    for hook in (await webhooks.every(scripts)).values():
        state = await webhooks.state(scripts, hook.id)
        found.append(
            {
                "id": hook.id,
                "url": hook.url,
                "types": [each for each in hook.types if each != "*"],
                "failing_since": state.failing_since_ms,
                "disabled": bool(state.disabled_at_ms),
                "log": [_delivery(raw) for raw in await webhooks.log(scripts, hook.id, most=_DELIVERIES_SHOWN)],
            }
        )
    return found


def _delivery(raw: Mapping[str, str]) -> dict[str, Any]:
    at_ms = int(float(raw.get("tried_at") or 0)) or int(float(raw["made_at"]))
    return {"number": raw["event"], "at_ms": at_ms} | {name: raw[name] for name in ("type", "status", "note")}


def _audit_entry(fields: Mapping[str, str]) -> dict[str, Any]:
    return {**fields, "at": int(fields["at"])}
