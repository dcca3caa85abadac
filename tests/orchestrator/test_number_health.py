"""A number's health: counted by its phone, told with its evidence, and shown to people when it turns poor."""

from typing import Any

import httpx

from tests.orchestrator.fakes import Teller
from tests.orchestrator.session_steps import PHONE, linked
from tests.orchestrator.test_server_troubles import alerts_told, lines_shown
from wa_orchestrator.domain.number_health import PATIENCE_MS, WINDOW_MS
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.orchestrator.messages import health_watch
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys

DAY_MS = 86_400_000


async def _write_to_strangers(control: Orchestrator, *, silent: int, answering: int) -> None:
    """Two days ago this phone wrote to so many people who had never written; some long before that, and some now."""
    context = control.context
    now_ms = await context.scripts.now_ms()
    at_ms = now_ms - PATIENCE_MS - DAY_MS
    await context.redis.zadd(keys.unanswered(PHONE), {f"97252{n:07d}": at_ms for n in range(silent)})
    await context.redis.zadd(keys.answered(PHONE), {f"97253{n:07d}": at_ms for n in range(answering)})
    late = {"972541": now_ms - WINDOW_MS - 1, "972542": now_ms}
    await context.redis.zadd(keys.unanswered(PHONE), late)
    await context.redis.hset(keys.pace(PHONE), mapping={"strangers": 7, "counted_since": at_ms})


async def test_a_number_that_nobody_answers_is_shown_until_people_do(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    context = control.context
    await linked(control, api, teller, "s1", PHONE, label="Clinic")
    await health_watch.judge_all(context)
    assert not await lines_shown(context)
    await _write_to_strangers(control, silent=39, answering=1)
    await health_watch.judge_all(context)
    assert (await lines_shown(context))[0].startswith("Clinic: only 1 of 40 people it wrote to first answered")
    assert "40" in (await lines_shown(context, "he"))[0]
    [alert] = await alerts_told(context, EventType.SESSION_HEALTH_POOR)
    assert "Few answer" in alert
    await _write_to_strangers(control, silent=39, answering=9)
    await health_watch.judge_all(context)
    assert not await lines_shown(context)


async def test_a_session_that_was_unlinked_is_not_said_to_be_counted_since_before_it_was_made(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = (await api.get("/api/sessions/s1/health")).json()["signals"]
    await control.context.redis.hset(keys.session("s1"), "first_connected_at", 0)
    after = (await api.get("/api/sessions/s1/health")).json()["signals"]
    assert [(each["since"] or "")[:10] for each in after] == [(each["since"] or "")[:10] for each in before]


async def test_the_api_tells_the_evidence_with_how_many_and_since_when(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    context = control.context
    await linked(control, api, teller, "s1", PHONE)
    empty = (await api.get("/api/sessions/s1/health")).json()
    assert (empty["level"], [each["level"] for each in empty["signals"]]) == ("too_few", ["too_few"] * 3)
    await _write_to_strangers(control, silent=30, answering=10)
    now_ms = await context.scripts.now_ms()
    counted: list[tuple[int, dict[Any, Any]]] = [
        (0, {"sent": 9, "delivered": 9, "refused": 2}),
        (3, {"sent": 80, "delivered": 70, "read": 60}),
    ]
    for days, counts in counted:
        day = day_of(context.settings, None, now_ms - days * DAY_MS)
        await context.redis.hset(keys.stats("s1", day), mapping=counts)
    found = (await api.get("/api/sessions/s1/health")).json()
    signals = {each["signal"]: (each["level"], each["count"], each["total"]) for each in found["signals"]}
    assert signals == {"ANSWERS": ("good", 10, 40), "UNREAD": ("good", 10, 70), "REFUSALS": ("poor", 2, 91)}
    assert (found["level"], found["strangersInARow"], found["trust"]) == ("poor", 7, "cold")
    assert all(each["since"] for each in found["signals"])
    assert (await api.get("/api/sessions/nobody/health")).status_code == 404
