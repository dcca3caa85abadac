"""The same facts that the pages show, for scripts."""

from collections import Counter
from typing import Any

from fastapi import APIRouter

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet import attention, history
from wa_orchestrator.dashboard.fleet.snapshot import Row, Snapshot
from wa_orchestrator.dashboard.html.renderer import Desk, View
from wa_orchestrator.domain.session import State
from wa_orchestrator.domain.stream_events import AlertTest, EventType
from wa_orchestrator.errors import Refused
from wa_orchestrator.store import audit, event_stream, keys
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.problems import responses

_ENDS = ("sent", "delivered", "read", "failed")


def router(context: Context, desk: Desk) -> APIRouter:
    """Offer the table and the figures."""
    routes = APIRouter(prefix="/api/v1/dashboard", tags=["dashboard"], responses=responses())
    api = _Figures(context, desk)
    routes.get("/sessions", summary="All sessions as the table shows them")(api.sessions)
    routes.get("/stats", summary="Counts, messages of today, queue, proxies, what needs attention")(api.stats)
    routes.post(
        "/test-alert",
        status_code=202,
        summary="Send a test alert to everybody who gets alerts",
        responses=responses(NOBODY_GETS_ALERTS=409),
    )(api.test_alert)
    return routes


class _Figures:
    """Answers the routes, each from one look at the fleet."""

    def __init__(self, context: Context, desk: Desk) -> None:
        self._context = context
        self._desk = desk

    async def sessions(self, _caller: ReadCaller) -> dict[str, Any]:
        view = await self._look()
        rows = view.snapshot.sorted_rows()
        return {"sessions": [_row(row, view.reason) for row in rows], "total": len(rows)}

    async def stats(self, _caller: ReadCaller) -> dict[str, Any]:
        view = await self._look()
        counts: Any = await self._context.redis.hgetall(keys.COUNTS)
        given_up = await history.given_up(self._context.scripts, view.now_ms)
        alerts = [
            {"state": item.state, "what": item.what.striptags(), "do": item.do.striptags(), "href": item.href}
            for item in attention.items(view.snapshot, view, given_up)
        ]
        return _stats(view.snapshot, {name: int(count) for name, count in counts.items()}) | {"alerts": alerts}

    async def test_alert(self, caller: AdminCaller) -> dict[str, bool]:
        settings = self._context.settings
        if settings.telegram_bot_token is None and settings.alert_webhook_url is None:
            raise Refused("NOBODY_GETS_ALERTS", "Set TELEGRAM_BOT_TOKEN or ALERT_WEBHOOK_URL first.", 409)
        await event_stream.emit(self._context.scripts, EventType.ALERT_TEST, AlertTest(caller.key_id))
        await audit.record(self._context.scripts, caller.key_id, "alert.test", "")
        return {"queued": True}

    async def _look(self) -> View:
        return await self._desk.view_as(None, "", self._context.settings.language)


def _row(row: Row, say: Any) -> dict[str, Any]:
    session = row.session
    return {
        "sessionId": row.id,
        "label": session.label or None,
        "phone": session.phone or None,
        "status": session.status,
        "reason": session.reason or None,
        "reasonText": say(session.reason) if session.reason else None,
        "needsPerson": row.needs_person,
        "trust": row.trust,
        "sentToday": row.sent_today,
        "limitToday": row.pace.per_day,
        "leftToday": row.left_today,
        "queued": row.queued,
        "held": row.hold is not None,
        "proxyId": session.proxy or None,
        "lastPingAt": iso(session.last_ping_at),
        "connectedAt": iso(session.connected_at),
    }


def _stats(snapshot: Snapshot, messages: dict[str, int]) -> dict[str, Any]:
    today = Counter({status: snapshot.today(status) for status in _ENDS})
    tried = today["sent"] + today["failed"]
    return {
        "sessions": {"total": len(snapshot.rows), **{str(state): snapshot.counts[state] for state in State}},
        "messagesToday": dict(today),
        "messages": messages,
        "queue": {"waiting": snapshot.queued},
        "proxies": {
            "total": len(snapshot.proxies),
            "healthy": len(snapshot.healthy),
            "seats": snapshot.slots,
            "freeSlots": snapshot.free_slots,
            "sessionsWaiting": len(snapshot.waiting_for_slot),
        },
        "successRate": round(today["sent"] / tried, 4) if tried else None,
    }
