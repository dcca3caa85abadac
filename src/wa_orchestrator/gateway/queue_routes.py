"""What waits for a session, and what it has sent by day."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query

from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import shapes, waiting
from wa_orchestrator.gateway.fleet import RECENT_S, Fleet, FleetView, Sender
from wa_orchestrator.gateway.shapes import Day, EmptiedAnswer, QueueAnswer, QueueItem, StatsAnswer
from wa_orchestrator.store import keys, queueing, reading
from wa_orchestrator.store.places import Place
from wa_orchestrator.store.queueing import Ended
from wa_orchestrator.web.auth import Scope, requires
from wa_orchestrator.web.context import Context
from wa_orchestrator.web.pace import zone_of
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.times import iso

SessionPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["worker_1"])]
_MOST: Final = 1000
_COUNTED: Final = ("sent", "delivered", "read", "failed")
_ERRORS = responses(
    API_KEY_MISSING=401, SCOPE_MISSING=403, NO_SUCH_SESSION=404, VALIDATION_FAILED=422, STORE_UNAVAILABLE=503
)


def router(context: Context, view: FleetView) -> APIRouter:
    """Offer a session's queue and its figures."""
    routes = APIRouter(prefix="/api/v1", tags=["messages"])
    scripts, settings = context.scripts, context.settings

    async def found(session_id: str) -> tuple[Fleet, Sender]:
        fleet = await view.current(fresh_s=RECENT_S)
        if session_id not in fleet.senders:
            raise Refused("NO_SUCH_SESSION", f"There is no session {session_id}. GET /api/sessions lists them.", 404)
        return fleet, fleet.senders[session_id]

    @routes.get(
        "/queue/{session_id}",
        summary="What waits for a session, in order",
        responses=_ERRORS,
        dependencies=[Depends(requires(Scope.READ))],
    )
    async def look(session_id: SessionPath, limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST) -> QueueAnswer:
        fleet, sender = await found(session_id)
        phone = sender.session.phone
        total, queued = await waiting.queue(scripts, phone, await view.outlook(fleet, sender), most=limit)
        items = [
            QueueItem(
                **shapes.view(each.message, settings.language),
                position=each.position,
                eta=None if each.eta.at_ms is None else iso(each.eta.at_ms),
                because=each.eta.because,
            )
            for each in queued
            if each.message.session == session_id
        ]
        return QueueAnswer(session_id=session_id, phone=phone, total=total, messages=items)

    @routes.delete(
        "/queue/{session_id}",
        summary="Cancel everything that waits for a session",
        responses=_ERRORS,
        dependencies=[Depends(requires(Scope.SEND))],
    )
    async def empty(session_id: SessionPath) -> EmptiedAnswer:
        _, sender = await found(session_id)
        phone = sender.session.phone
        ended = too_late = 0
        for message_id in await _waiting_ids(context, phone):
            message = await reading.message(scripts, message_id)
            if message is None or message.session != session_id or message.phone != phone:
                continue
            outcome = await queueing.cancel(scripts, Place(message_id, phone, session_id), reason="CANCELLED")
            ended += isinstance(outcome, Ended)
            too_late += not isinstance(outcome, Ended)
        return EmptiedAnswer(cancelled=ended, too_late=too_late)

    @routes.get(
        "/stats/{session_id}",
        summary="Sent, delivered, read and failed, by day",
        responses=_ERRORS,
        dependencies=[Depends(requires(Scope.READ))],
    )
    async def stats(session_id: SessionPath, days: Annotated[int, Query(ge=1, le=400)] = 30) -> StatsAnswer:
        fleet, sender = await found(session_id)
        today = datetime.fromtimestamp(fleet.now_ms() / 1000, UTC).astimezone(zone_of(settings, sender.session)).date()
        dates = [today - timedelta(days=back) for back in range(days)]
        pipe = scripts.redis.pipeline(transaction=False)
        for date in dates:
            pipe.hmget(keys.stats(session_id, f"{date:%Y%m%d}"), _COUNTED)
        counts: list[Any] = await pipe.execute()
        rows = [_day(date.isoformat(), count) for date, count in zip(dates, counts, strict=True)]
        total = _day("total", [sum(getattr(row, name) for row in rows) for name in _COUNTED])
        return StatsAnswer(session_id=session_id, total=total, days=rows)

    return routes


async def _waiting_ids(context: Context, phone: str) -> list[str]:
    """Every message of a phone that waits: in its queue, set aside, or not routed yet."""
    pipe = context.redis.pipeline(transaction=False)
    pipe.zrange(keys.queue(phone), 0, -1)
    pipe.zrange(keys.set_aside(phone), 0, -1)
    pipe.lrange(keys.GATEWAY_JOBS, 0, 10_000)
    queued, aside, jobs = await pipe.execute()
    return [*queued, *aside, *jobs]


def _day(date: str, counts: Any) -> Day:
    return Day(date=date, **{name: int(count or 0) for name, count in zip(_COUNTED, counts, strict=True)})
