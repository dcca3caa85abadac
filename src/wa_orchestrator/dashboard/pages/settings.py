"""Keys for programs, webhooks, a test of the alerts, and what people did."""

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from wa_orchestrator.dashboard.rendering import Desk, Shown, View
from wa_orchestrator.store import keys
from wa_orchestrator.web import audit, auth

_AUDIT_SHOWN = 30


async def show(desk: Desk, view: View, query: Mapping[str, str]) -> Shown:
    """Show what administrators set; secrets are never part of it."""
    settings = desk.context.settings
    values = {
        "keys": await auth.list_keys(desk.context),
        "webhooks": await webhooks(desk),
        "audit": [_told(entry.fields) for entry in await audit.read(desk.context, before=None, most=_AUDIT_SHOWN)],
        "scopes": list(auth.Scope),
        "alerts": {
            "telegram": settings.telegram_bot_token is not None,
            "webhook": settings.alert_webhook_url is not None,
        },
        "facts": {
            "timezone": settings.timezone,
            "preset": settings.pacing_preset,
            "runner": settings.runner,
            "max_backups": settings.max_backups,
        },
        "query": query,
    }
    return Shown("settings.html", desk.frame_parts(view), values, {"page": "settings"})


async def parts(desk: Desk, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    """Only the frame changes by itself."""
    return desk.frame_parts(view)


async def webhooks(desk: Desk) -> list[dict[str, Any]]:
    """The addresses that get events, without their secrets, and how deliveries go."""
    raw: Any = await desk.context.redis.hgetall(keys.WEBHOOKS)
    found = []
    for webhook_id, text in sorted(raw.items()):
        stored = json.loads(text)
        state: Any = await desk.context.redis.hgetall(keys.webhook_state(webhook_id))
        found.append(
            {
                "id": webhook_id,
                "url": stored.get("url", ""),
                "types": stored.get("types") or [],
                "waiting": int(state.get("waiting") or 0),
                "failing_since": int(float(state.get("failing_since") or 0)),
                "disabled": bool(state.get("disabled_at")),
            }
        )
    return found


def _told(fields: Mapping[str, str]) -> dict[str, Any]:
    return {**fields, "at": int(fields["at"])}
