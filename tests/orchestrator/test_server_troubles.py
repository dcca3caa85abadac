"""Troubles of the server itself: one alert when one begins, and a line under "Needs attention" until it is over."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from tests.orchestrator.conftest import Usage
from tests.orchestrator.fakes import Teller
from tests.orchestrator.session_steps import PHONE, linked
from wa_orchestrator.archive.archiver import Archiver
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.dashboard.fleet import attention
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.locale import Locale
from wa_orchestrator.domain.stream_events import ALERTS, EventType
from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator import installation_check
from wa_orchestrator.orchestrator.notifications import lasting_troubles
from wa_orchestrator.orchestrator.notifications.alert_texts import alert_of, text_of
from wa_orchestrator.orchestrator.notifications.lasting_troubles import PATIENCE_MS
from wa_orchestrator.orchestrator.notifications.server_troubles import is_disk_low
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store import keys, proxies
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.backups.runs import EndedRun
from wa_orchestrator.store.engine import durability
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.events.webhooks import Webhook
from wa_orchestrator.store.history import archive_marks
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.sessions import nodes

GIB = 1024**3


@pytest.mark.parametrize(
    ("total", "free", "low"),
    [(10 * GIB, GIB, False), (10 * GIB, GIB // 4, True), (1000 * GIB, 3 * GIB, False), (1000 * GIB, GIB, True)],
)
def test_a_disk_is_low_by_its_share_and_a_large_one_by_its_bytes(total: int, free: int, low: bool) -> None:
    assert is_disk_low(total, free) is low


@pytest.mark.parametrize(("used", "most", "low"), [(69, 100, False), (70, 100, True), (10**12, 0, False)])
def test_memory_is_low_at_seventy_percent_of_a_limit(used: int, most: int, low: bool) -> None:
    assert durability.is_memory_low(used, most) is low


async def alerts_told(context: Context, kind: EventType) -> list[str]:
    """The alerts of this kind, as people read them."""
    written: Any = await context.redis.xrange(keys.EVENTS)
    alerts = [alert_of(fields) for _, fields in written if fields["type"] == kind]
    return [text_of([alert], "en") for alert in alerts if alert]


async def lines_shown(context: Context, language: str = "en") -> list[str]:
    """The lines under "Needs attention", after the leader looked."""
    await lasting_troubles.report_new(context)
    snapshot = await SnapshotReader(context).read()
    items = attention.items(snapshot, Locale(language, ZoneInfo(context.settings.timezone), snapshot.now_ms))
    return [f"{item.what.striptags()} {item.do.striptags()}" for item in items]


async def test_a_disk_that_runs_full_is_one_alert_until_it_had_room_again(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, directories = (
        control.context,
        len({control.context.settings.data_dir, control.context.settings.sessions_dir}),
    )
    for gib, shown in ((1, False), (0.4, True), (0.2, True), (0.55, True), (1, False), (0.4, True)):
        free = round(gib * GIB)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: Usage(10 * GIB, 10 * GIB - free, free))
        assert any("disk is nearly full" in line for line in await lines_shown(context)) is shown, gib
    told = await alerts_told(context, EventType.DISK_LOW)
    assert len(told) == 2 * directories, "0.55 GiB of 10 are no more low, but not clearly"
    assert "nearly full" in told[0]


async def test_a_redis_that_runs_full_is_one_alert_until_it_had_room_again(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for used, shown in ((10, False), (71, True), (90, True), (69, True), (10, False), (71, True)):

        async def memory(_: object, used: int = used) -> tuple[int, int]:
            return used, 100

        monkeypatch.setattr(durability, "memory_in_use", memory)
        assert (
            any("Redis has used most of its memory" in line for line in await lines_shown(control.context)) is shown
        ), used
    told = await alerts_told(control.context, EventType.REDIS_MEMORY_LOW)
    assert len(told) == 2
    assert "memory" in told[0]


async def test_a_restart_of_the_server_does_not_repeat_the_alert_of_a_disk_that_is_still_full(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10 * GIB, 10 * GIB, 0))
    await lines_shown(control.context)
    told = len(await alerts_told(control.context, EventType.DISK_LOW))
    await lines_shown(make_context(control.context.settings, control.context.redis))
    assert len(await alerts_told(control.context, EventType.DISK_LOW)) == told


async def test_history_that_cannot_be_archived_is_told_after_ten_minutes_and_until_it_can(
    control: Orchestrator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = control.context
    archiver = Archiver(context.settings, context.scripts, context.archive)

    async def fail(*_: object) -> int:
        raise Unavailable("ARCHIVE_UNAVAILABLE", "disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(archiver, "move", fail)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await archiver.step()
    assert not await lines_shown(context), "it may mend itself"
    failing = await archive_marks.failing(context.scripts)
    assert failing is not None
    await context.redis.set(keys.ARCHIVE_FAILING, f"{failing[0] - PATIENCE_MS - 1} {failing[1]}")
    for _ in range(2):
        assert any(line.startswith("History has not been archived since") for line in await lines_shown(context))
    assert len(await alerts_told(context, EventType.ARCHIVE_FAILING)) == 1
    await archiver.step()
    assert not await lines_shown(context)


async def test_history_whose_archive_is_on_another_machine_says_so(control: Orchestrator) -> None:
    context = control.context
    await context.redis.set(keys.ARCHIVE, "another")
    await Archiver(context.settings, context.scripts, context.archive).step()
    await context.redis.set(
        keys.ARCHIVE_FAILING, f"{await context.scripts.now_ms() - PATIENCE_MS - 1} ARCHIVE_ELSEWHERE"
    )
    assert any("The archive in use is on another machine." in line for line in await lines_shown(context))


async def test_a_failed_backup_is_shown_until_one_succeeds(control: Orchestrator) -> None:
    context, ended = control.context, EndedRun("backup", "", 1, 2, 0, "schedule")
    await runs.end(context.scripts, EndedRun("backup", "", 1, 2, 0, "schedule", "DISK_FULL", "no space"))
    await runs.end(context.scripts, EndedRun("restore", "backup_2026-01-01", 3, 4, 0, "Dana"))
    assert any("The last backup failed at" in line and "disk is full" in line for line in await lines_shown(context))
    await runs.end(context.scripts, ended)
    assert not await lines_shown(context)


async def test_a_backup_without_its_second_copy_is_shown_until_one_is_copied(
    control: Orchestrator, tmp_path: Path
) -> None:
    settings = control.context.settings.model_copy(update={"backup_copy_dir": tmp_path / "copies"})
    context = make_context(settings, control.context.redis)
    await runs.set_uncopied(context.scripts, "backup_2026-01-01")
    assert any("backup_2026-01-01 has no second copy" in line for line in await lines_shown(context))
    assert not await lines_shown(control.context), "nobody wants copies"
    await runs.set_uncopied(context.scripts, "")
    assert not await lines_shown(context)


async def test_sessions_that_redis_has_lost_are_shown_until_there_is_a_session_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    context = control.context
    database = context.settings.sessions_dir / "haifa" / credential_files.DATABASE
    database.parent.mkdir(parents=True)
    database.touch()
    await installation_check.check_installation(context)
    assert any("Redis came back empty: 1 session is gone" in line for line in await lines_shown(context))
    assert len(await alerts_told(context, EventType.REDIS_EMPTIED)) == 1
    await linked(control, api, teller, "haifa", PHONE)
    assert not await lines_shown(context)


async def test_our_own_outage_is_shown_while_it_lasts(control: Orchestrator) -> None:
    await proxies.begin_outage(control.context.scripts, failing=3, healthy=3)
    assert (await lines_shown(control.context))[0].startswith("3 of 3 proxies have failed at once since")
    await proxies.end_outage(control.context.scripts)
    assert not await lines_shown(control.context)


async def test_few_free_slots_are_shown_while_people_are_told_so(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    settings = control.context.settings.model_copy(update={"low_inventory_slots": 12})
    context = make_context(settings, control.context.redis)
    await linked(control, api, teller, "s1", PHONE)
    await placement.report_inventory(context)
    assert await alerts_told(context, EventType.PROXY_LOW_INVENTORY)
    assert (await lines_shown(context))[0].startswith("Only 11 of 12 proxy slots are free")
    await placement.report_inventory(control.context)
    assert not await lines_shown(context)


async def test_a_phone_that_whatsapp_asked_to_send_less_is_shown_while_messages_wait(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    context = control.context
    await linked(control, api, teller, "s1", PHONE, label="Clinic")
    await context.redis.hset(keys.pace(PHONE), "slowdowns", 2)
    assert not await lines_shown(context), "nothing would show that it is over"
    await context.redis.zadd(keys.queue(PHONE), {"m1": 1})
    assert (await lines_shown(context))[0].startswith("WhatsApp asked Clinic to send less")
    assert "Clinic" in (await lines_shown(context, "he"))[0]


async def test_a_campaign_that_paused_by_itself_is_shown_until_a_person_decides(control: Orchestrator) -> None:
    context = control.context
    paused: dict[Any, Any] = {"id": "c_1", "name": "Spring", "state": "paused", "why": "OPT_OUTS"}
    await context.redis.hset(keys.campaign("c_1"), mapping=paused)
    await context.redis.sadd(keys.CAMPAIGNS_ACTIVE, "c_1")
    await context.redis.zadd(keys.CAMPAIGNS, {"c_1": 1})
    assert (await lines_shown(context))[0].startswith("The campaign Spring paused by itself")
    assert "Spring" in (await lines_shown(context, "he"))[0]
    await context.redis.hset(keys.campaign("c_1"), "why", "OPERATOR")
    assert not await lines_shown(context)


async def test_a_disabled_webhook_is_shown_at_once_and_is_not_said_to_be_tried(control: Orchestrator) -> None:
    context = control.context
    await webhooks.put(context.scripts, Webhook("wh1", "https://crm.example.com/secret", ("*",), "s", "0", 1))
    long_ago = await context.scripts.now_ms() - 2 * PATIENCE_MS
    await context.redis.hset(keys.webhook_state("wh1"), "failing_since", str(long_ago))
    assert [line.split(" have failed ")[0] for line in await lines_shown(context)] == [
        "Deliveries to the webhook crm.example.com"
    ]
    await webhooks.disable(context.scripts, "wh1", "QUEUE_FULL")
    [line] = await lines_shown(context)
    assert line.startswith("The webhook crm.example.com was disabled at")
    await webhooks.enable(context.scripts, "wh1")
    assert not await lines_shown(context)


async def test_opt_outs_that_nobody_can_have_sent_are_shown_for_an_hour(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    context = control.context
    await linked(control, api, teller, "s1", PHONE, label="Clinic")
    assert not await lines_shown(context)
    assert await contacts.is_unproven_news(context.scripts, "s1")
    assert (await lines_shown(context))[0].startswith("Clinic reported many opt-outs")
    assert "Clinic" in (await lines_shown(context, "he"))[0]


async def test_a_node_that_does_not_answer_is_one_alert_until_it_is_back_or_drained(control: Orchestrator) -> None:
    context = make_context(control.context.settings.model_copy(update={"runner": "swarm"}), control.context.redis)
    here, there = (WorkerNode(name, NodeState.READY, "10.0.0.1", 8 * GIB, 256) for name in ("here", "there"))
    await nodes.note(context.scripts, [here, there])
    assert not await lines_shown(context)
    for _ in range(2):
        await nodes.note(context.scripts, [here, replace(there, state=NodeState.LOST)])
        [line] = await lines_shown(context)
        assert line.startswith("The node there has not answered since ")
        await context.redis.delete(keys.CONTROL_NODES)  # as after a restart: nobody has asked the engine yet
        assert await lines_shown(context) == [line]
    assert "there" in (await lines_shown(context, "he"))[0]
    [told] = await alerts_told(context, EventType.NODE_LOST)
    assert "A node does not answer" in told
    assert told.endswith(": there")
    await nodes.note(context.scripts, [here, replace(there, state=NodeState.LOST)])
    await nodes.drain(context.scripts, "there")
    assert not await lines_shown(context), "it may be switched off"


#: Alerts that are news: nobody has to do anything, or has just done it.
NEWS = frozenset(
    {
        EventType.SESSION_CONNECTED,
        EventType.SESSION_MOVED,
        EventType.PROXY_OK,
        EventType.BACKUP_DONE,
        EventType.RESTORE_DONE,
        EventType.RESTORE_INCOMPLETE,
        EventType.RESTORE_FAILED,  # both are the answer to whoever asked for it
        EventType.SUMMARY_DAILY,
        EventType.CLIENT_EXPIRES,  # workers look for a newer version by themselves
        EventType.ALERT_TEST,
    }
)
#: The others, each with the function that shows it under "Needs attention".
SHOWN: dict[EventType, Callable[..., object]] = {
    EventType.SESSION_DISCONNECTED: attention._offline,
    EventType.SESSION_FAILED: attention._failed,
    EventType.SESSION_UNLINKED: attention._unlinked,
    EventType.SESSION_TURNED_AWAY: attention._failed,
    EventType.SESSION_BURST: attention._bursts,
    EventType.SESSION_SLOWED_DOWN: attention._slowed_down,
    EventType.SESSION_REACHOUT_LOCKED: attention._reachout_locks,
    EventType.SESSION_NEW_CHATS_CAPPED: attention._new_chat_caps,
    EventType.LONG_QUEUE: attention._long_queues,
    EventType.SESSION_HEALTH_POOR: attention._poor_numbers,
    EventType.MESSAGE_FAILED: attention._failed_messages,
    EventType.MESSAGE_UNKNOWN: attention._failed_messages,
    EventType.PROXY_BAD: attention._bad_proxies,
    EventType.PROXY_LOW_INVENTORY: attention._full,
    EventType.PROFILE_LOW_INVENTORY: attention._few_profiles,
    EventType.PROXY_OUTAGE: attention._server,
    EventType.DISK_LOW: attention._server,
    EventType.REDIS_MEMORY_LOW: attention._server,
    EventType.REDIS_EMPTIED: attention._server,
    EventType.NODE_LOST: attention._server,
    EventType.ARCHIVE_FAILING: attention._server,
    EventType.BACKUP_FAILED: attention._backups,
    EventType.BACKUP_COPY_FAILED: attention._backups,
    EventType.WEBHOOK_FAILING: attention._failing_webhooks,
    EventType.WEBHOOK_DISABLED: attention._disabled_webhooks,
    EventType.CAMPAIGN_PAUSED_ITSELF: attention._paused_campaigns,
    EventType.SESSION_OPT_OUTS_UNPROVEN: attention._unproven_opt_outs,
}


def test_every_alert_that_needs_a_person_has_its_line_under_needs_attention() -> None:
    assert SHOWN.keys() | NEWS == ALERTS
    assert not SHOWN.keys() & NEWS
