"""Keys for programs, webhooks, a test of the alerts, and what people did."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import Desk, Shown, View
from wa_orchestrator.store import api_keys, audit, webhooks

_AUDIT_SHOWN = 30
_DELIVERIES_SHOWN = 20


async def show(desk: Desk, view: View, query: Mapping[str, str]) -> Shown:
    """Show what administrators set; secrets are never part of it."""
    settings = desk.context.settings
    values = {
        "keys": await api_keys.every(desk.context.scripts),
        "audit": [
            _told(entry.fields) for entry in await audit.read(desk.context.scripts, before=None, most=_AUDIT_SHOWN)
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
    return Shown("settings.html", await parts(desk, view, query), values, {"page": "settings"})


async def parts(desk: Desk, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Render what changes by itself: how deliveries go."""
    return desk.frame_parts(view) | {"webhooks": desk.macros.webhooks(view, await hooks(desk))}


async def hooks(desk: Desk) -> list[dict[str, Any]]:
    """The addresses that get events, without their secrets, and how the latest deliveries went."""
    scripts = desk.context.scripts
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


def _told(fields: Mapping[str, str]) -> dict[str, Any]:
    return {**fields, "at": int(fields["at"])}
