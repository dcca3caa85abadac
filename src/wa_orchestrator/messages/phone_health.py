"""Reads what a phone's health is judged by, and judges it. The pages, the API and the leader ask here."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta

from wa_orchestrator.domain import number_health
from wa_orchestrator.domain.number_health import PATIENCE_MS, READ_DAYS, WINDOW_MS, HealthEvidence, NumberHealth
from wa_orchestrator.domain.pacing.limits import DAY_MS
from wa_orchestrator.messages.session_pace import zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import health_counts
from wa_orchestrator.store.records import Session


async def of_session(scripts: Scripts, settings: Settings, session: Session, now_ms: int) -> NumberHealth:
    """Return the health of a session's phone, by what all the sessions of that phone did."""
    ids = await health_counts.sessions_of(scripts, session.phone) if session.phone else []
    return await of_phone(scripts, settings, session, ids, now_ms)


async def of_phone(
    scripts: Scripts, settings: Settings, session: Session, ids: Sequence[str], now_ms: int
) -> NumberHealth:
    """Return the health of a phone that has the sessions `ids`; days are those of `session`."""
    if not ids:
        return number_health.judge(HealthEvidence())
    people = await health_counts.strangers(scripts, session.phone, (now_ms - WINDOW_MS, now_ms - PATIENCE_MS))
    today = datetime.fromtimestamp(now_ms / 1000, tz=zone_of(settings, session)).date()
    dates = [today - timedelta(days=days) for days in range(WINDOW_MS // DAY_MS)]
    found = await health_counts.by_day(scripts, ids, [f"{date:%Y%m%d}" for date in dates])
    read = found[1 : READ_DAYS + 1]
    linked_ms = session.first_connected_at or session.created_at  # unlinked on the phone: it has no first link now

    def begins_ms(days: int) -> int:
        """Return when the day so many days ago began, or the first link if that is later."""
        begins = datetime.combine(dates[days], time(), zone_of(settings, session))
        return max(linked_ms, int(begins.timestamp() * 1000))

    refused = sum(each.refused for each in found)
    return number_health.judge(
        HealthEvidence(
            written=people.written,
            answered=people.answered,
            people_since_ms=people.counted_since_ms and max(people.counted_since_ms, now_ms - WINDOW_MS),
            delivered=sum(each.delivered for each in read),
            read=sum(each.read for each in read),
            read_since_ms=begins_ms(READ_DAYS),
            tried=sum(each.sent for each in found) + refused,
            refused=refused,
            tried_since_ms=begins_ms(len(dates) - 1),
            strangers=people.in_a_row,
        )
    )
