"""How sessions and proxies are shown: no secret, and for each reason a sentence that says what to do."""

from collections.abc import Mapping
from typing import Any

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing import limits
from wa_orchestrator.domain.session import Reason, State, needs_person, sentence
from wa_orchestrator.orchestrator.proxies.health import strikes_of
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.records import Proxy, Session
from wa_orchestrator.timestamps import iso


def session_view(session: Session, proxies: Mapping[str, Proxy], now_ms: int, language: str) -> dict[str, Any]:
    """Show one session as the list does."""
    reason = Reason(session.reason) if session.reason else None
    proxy = proxies.get(session.proxy)
    return {
        "sessionId": session.id,
        "status": session.status,
        "reason": reason,
        "reasonText": sentence(reason, language) if reason else None,
        "needsPerson": needs_person(State(session.status), reason),
        "phone": session.phone or None,
        "label": session.label or None,
        "proxy": proxy.masked if proxy else None,
        "proxyId": session.proxy or None,
        "trust": limits.trust(session.first_connected_at or None, now_ms),
        "deviceName": session.fields.get("device_name") or None,
        "createdAt": iso(session.created_at),
        "changedAt": iso(session.changed_at),
        "connectedAt": iso(session.connected_at),
        "firstConnectedAt": iso(session.first_connected_at),
        "lastPingAt": iso(session.last_ping_at),
        "epoch": session.epoch,
    }


async def status_view(context: Context, session: Session, language: str) -> dict[str, Any]:
    """Show one session with its worker and its queue."""
    proxies = {proxy.id: proxy for proxy in await records.proxies(context.scripts, [session.proxy])}
    now = await context.scripts.now_ms()
    return session_view(session, proxies, now, language) | {
        "worker": _worker(session),
        "queue": await _queue(context, session),
        "banEndsAt": iso(_number(session, "ban_ends_at")),
    }


def _number(session: Session, name: str) -> int:
    return int(float(session.fields.get(name) or 0))


def _worker(session: Session) -> dict[str, Any]:
    return {
        "epoch": session.epoch,
        "startedAt": iso(_number(session, "started_at")),
        "socket": session.fields.get("ping_socket"),
        "lagMs": _number(session, "ping_lag_ms"),
        "rssBytes": _number(session, "ping_rss_bytes"),
        "lastTrafficAt": iso(_number(session, "last_traffic_at")),
    }


async def _queue(context: Context, session: Session) -> dict[str, Any]:
    async with context.redis.pipeline(transaction=False) as pipe:
        pipe.zcard(keys.queue(session.phone))
        pipe.hget(keys.pace(session.phone), "in_flight")
        waiting, in_flight = await pipe.execute()
    return {"waiting": int(waiting), "inFlight": in_flight or None}


def proxy_view(proxy: Proxy, per_proxy: int) -> dict[str, Any]:
    """Show one proxy."""
    latency = proxy.fields.get("latency_ms")
    return {
        "id": proxy.id,
        "url": proxy.masked,
        "status": proxy.status,
        "sessions": sorted(proxy.sessions),
        "seats": per_proxy,
        "free": max(0, per_proxy - len(proxy.sessions)) if proxy.status == "OK" else 0,
        "lastCheckAt": iso(int(proxy.fields.get("checked_at") or 0)),
        "nextCheckAt": iso(int(proxy.fields.get("next_check_at") or 0)),
        "latencyMs": int(latency) if latency else None,
        "lastError": proxy.fields.get("last_error") or None,
        "strikes": len(strikes_of(proxy)),
        "origin": proxy.fields.get("origin"),
        "draining": bool(proxy.fields.get("draining")),
        "addedAt": iso(int(proxy.fields.get("added_at") or 0)),
    }
