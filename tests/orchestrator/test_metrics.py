"""Metrics: what is counted, and that the dashboard and the alert rules in deploy/ name only what exists."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.orchestrator.fakes import Teller
from tests.orchestrator.session_steps import linked
from wa_orchestrator.dashboard.fleet import history
from wa_orchestrator.domain.ids import MessageId, Phone, SessionId
from wa_orchestrator.domain.stream_events import EventType, MessageChanged
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys
from wa_orchestrator.store.events import event_stream

PHONE = "972501234567"
MONITORING = Path(__file__).parents[2] / "deploy/monitoring"
RULES = MONITORING / "alert-rules.yaml"
NAME = re.compile(r"\b(?:wa|process)_[a-z_]+")


async def scrape(api: httpx.AsyncClient) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels."""
    text = (await api.get("/metrics")).text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def emit(control: Orchestrator, kind: EventType, note: str = "") -> None:
    payload = MessageChanged(SessionId("s1"), MessageId("m_1"), Phone(PHONE), note)
    await event_stream.emit(control.context.scripts, kind, payload)


async def test_messages_are_counted_by_what_happened_to_them_each_once(
    control: Orchestrator, api: httpx.AsyncClient
) -> None:
    for kind in (EventType.MESSAGE_QUEUED, EventType.MESSAGE_SENDING, EventType.MESSAGE_SENT):
        await emit(control, kind)
    await emit(control, EventType.MESSAGE_QUEUED, "NO_ACK")
    await emit(control, EventType.MESSAGE_FAILED, "NOT_ON_WHATSAPP")
    for _ in range(2):
        await history.record(control.context.scripts)
    found = await scrape(api)
    assert found["wa_messages_total", (("event", "accepted"),)] == 1
    assert found["wa_messages_total", (("event", "sent"),)] == 1
    assert found["wa_messages_total", (("event", "failed"),)] == 1
    assert found["wa_message_retries_total", (("reason", "NO_ACK"),)] == 1
    assert found["wa_message_failures_total", (("reason", "NOT_ON_WHATSAPP"),)] == 1
    assert found["wa_events_total", (("type", "message.queued"),)] == 2


async def test_the_time_from_claim_to_acknowledgement_is_in_a_histogram(
    control: Orchestrator, api: httpx.AsyncClient
) -> None:
    scripts = control.context.scripts
    now_ms = await scripts.now_ms()
    instants: dict[Any, Any] = {
        "accepted_at": now_ms - 40_000,
        "released_at": now_ms - 6_200,
        "claimed_at": now_ms - 6_000,
    }
    await scripts.redis.hset(keys.message("m_1"), mapping=instants)
    await emit(control, EventType.MESSAGE_SENT)
    await history.record(scripts)
    found = await scrape(api)
    assert found["wa_message_ack_seconds_bucket", (("le", "5.0"),)] == 0
    assert found["wa_message_ack_seconds_bucket", (("le", "+Inf"),)] == 1
    assert found["wa_message_ack_seconds_sum", ()] >= 6
    assert found["wa_message_claim_seconds_bucket", (("le", "0.25"),)] == 1
    assert found["wa_message_wait_seconds_bucket", (("le", "30.0"),)] == 0
    assert found["wa_message_wait_seconds_bucket", (("le", "60.0"),)] == 1


async def test_a_message_is_not_late_before_its_own_time(control: Orchestrator, api: httpx.AsyncClient) -> None:
    scripts = control.context.scripts
    now_ms = await scripts.now_ms()
    instants: dict[Any, Any] = {
        "accepted_at": now_ms - 9_000_000,
        "due_at": now_ms - 1_000,
        "released_at": now_ms - 900,
    }
    await scripts.redis.hset(keys.message("m_1"), mapping=instants)
    await emit(control, EventType.MESSAGE_SENT)
    await history.record(scripts)
    assert (await scrape(api))["wa_message_wait_seconds_bucket", (("le", "0.1"),)] == 1


async def test_the_age_of_the_queue_is_that_of_the_oldest_message_that_may_leave(
    control: Orchestrator, api: httpx.AsyncClient
) -> None:
    scripts = control.context.scripts
    now_ms = await scripts.now_ms()
    assert (await scrape(api))["wa_queue_oldest_seconds", ()] == 0
    for name, age_ms, due_at in (("m_later", 500_000, now_ms + 60_000), ("m_old", 90_000, 0), ("m_new", 1_000, 0)):
        await scripts.redis.zadd(keys.STATUSES, {f":queued {now_ms - age_ms} {name}": 0})
        await scripts.redis.hset(keys.message(name), mapping={"due_at": due_at})
    assert 90 <= (await scrape(api))["wa_queue_oldest_seconds", ()] < 400


async def test_a_phone_that_no_dispatcher_serves_is_overdue(control: Orchestrator, api: httpx.AsyncClient) -> None:
    scripts = control.context.scripts
    assert (await scrape(api))["wa_dispatch_overdue_seconds", ()] == 0
    await scripts.redis.zadd(keys.DUE, {PHONE: await scripts.now_ms() - 90_000})
    assert (await scrape(api))["wa_dispatch_overdue_seconds", ()] >= 90


async def test_a_consumer_that_stands_still_is_seen_to_be_behind(control: Orchestrator, api: httpx.AsyncClient) -> None:
    scripts = control.context.scripts
    await emit(control, EventType.MESSAGE_SENT)
    newest_ms = int((await event_stream.last_cursor(scripts)).partition("-")[0])
    for cursor in (keys.ALERT_CURSOR, keys.WEBHOOK_CURSOR):
        await scripts.redis.set(cursor, f"{newest_ms - 599_000}-0")
    found = await scrape(api)
    assert found["wa_event_lag_seconds", (("consumer", "alerts"),)] == 599
    assert ("wa_event_lag_seconds", (("consumer", "webhooks"),)) not in found, "there is no webhook"


async def test_redis_the_process_and_the_version_are_told(control: Orchestrator, api: httpx.AsyncClient) -> None:
    found = await scrape(api)
    assert found["wa_redis_memory_bytes", (("kind", "used"),)] > 100_000
    assert found["process_resident_memory_bytes", ()] > 1_000_000
    assert any(name == "wa_build_info" for name, _ in found)


def named(text: str) -> set[str]:
    return set(NAME.findall(text))


def expressions() -> list[str]:
    board: Any = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    of_panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return of_panels + re.findall(r"^ +expr: (.+)$", RULES.read_text(), re.MULTILINE)


async def test_every_metric_of_the_dashboard_and_the_rules_exists(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await emit(control, EventType.MESSAGE_QUEUED, "NO_ACK")
    await emit(control, EventType.MESSAGE_FAILED, "NOT_ON_WHATSAPP")
    await history.record(control.context.scripts)
    text = (await api.get("/metrics")).text
    wanted = set().union(*(named(each) for each in expressions()))
    assert len(wanted) > 20
    # A histogram with labels has no sample before its first observation; its family is declared all the same.
    assert {
        name for name in wanted if name not in named(text) and name.removesuffix("_bucket") not in named(text)
    } == set()


def test_backups_that_failed_or_were_not_made_have_rules_and_every_rule_names_events_that_exist() -> None:
    types = set(re.findall(r'type="([^"]+)"', RULES.read_text()))
    assert types >= {EventType.BACKUP_FAILED, EventType.BACKUP_DONE}
    assert types <= set(EventType)


async def test_every_metric_of_the_page_exists(control: Orchestrator, api: httpx.AsyncClient) -> None:
    page = (MONITORING.parents[1] / "docs/monitoring.md").read_text()
    declared = named((await api.get("/metrics")).text)
    told = {name for name in named(page) if name != "process_"}
    assert {name for name in told if name not in declared and name.removesuffix("_total") not in declared} == set()


def test_no_rule_matches_a_number_by_its_labels() -> None:
    """Prometheus refuses the whole file for one: only vectors have labels."""
    assert not re.search(r"\d\s*[-+*/<>]\s*(ignoring|on)\s*\(", RULES.read_text())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
