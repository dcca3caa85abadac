"""Judges the health of all phones every few minutes, and records poor ones for the gateway's warnings."""

from collections import defaultdict
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.number_health import HealthLevel
from wa_orchestrator.messages import phone_health
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import health_counts
from wa_orchestrator.store.messages.health_counts import PoorSignal
from wa_orchestrator.store.records import Session

#: What is judged changes slowly: it is counted by days.
_INTERVAL_S: Final = 300.0


async def judge_all(context: Context) -> float:
    """Judge every phone; returns the seconds to wait."""
    now_ms = await context.scripts.now_ms()
    by_phone: dict[str, list[Session]] = defaultdict(list)
    for session in await records.sessions(context.scripts):
        if session.phone and not session.removing:
            by_phone[session.phone].append(session)
    found: dict[str, PoorSignal] = {}
    for phone, linked in by_phone.items():
        oldest = min(linked, key=lambda each: each.first_connected_at or now_ms)
        ids = [each.id for each in linked]
        health = await phone_health.of_phone(context.scripts, context.settings, oldest, ids, now_ms)
        poor = next((each for each in health.signals if each.level is HealthLevel.POOR), None)
        if poor is not None:
            found[phone] = PoorSignal(oldest.id, poor.signal, poor.count, poor.of)
    await health_counts.replace_poor(context.scripts, found)
    return _INTERVAL_S
