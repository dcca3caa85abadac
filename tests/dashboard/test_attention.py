"""What needs a person, and which session is meant: nothing that waits for somebody is passed over or mistaken."""

import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from markupsafe import Markup
from redis.asyncio import Redis

from tests.dashboard.sample_fleet import FleetBuilder, fill
from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet import attention
from wa_orchestrator.dashboard.fleet.snapshot import Snapshot
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.locale import Locale, spelled_phone
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.dashboard.pages import anti_ban, fleet, live_log, messages, passkey, scan, session
from wa_orchestrator.dashboard.pages import proxies as proxies_page
from wa_orchestrator.dashboard.pages import settings as settings_page
from wa_orchestrator.domain.access.permissions import Role, Scope
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.stream_events import EventType, ProxyReason, UnprovenOptOuts
from wa_orchestrator.store import keys, proxies
from wa_orchestrator.store.access import api_keys, audit, people
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import lasting_troubles, webhooks
from wa_orchestrator.store.events.activity import HOUR_MS
from wa_orchestrator.store.events.lasting_troubles import FoundTrouble
from wa_orchestrator.store.messages import contacts, holds
from wa_orchestrator.store.outcomes import Written
from wa_orchestrator.store.sessions import passkeys, slots
from wa_orchestrator.store.sessions.passkeys import PasskeyCeremony
from wa_orchestrator.timestamps import FOREVER_MS

NOW = 1_750_075_200_000
ENGLISH = Locale("en", ZoneInfo("UTC"), NOW)
HEBREW = Locale("he", ZoneInfo("Asia/Jerusalem"), NOW)
ADMINISTRATOR = Person(Role.ADMINISTRATOR, "Dana", "token", "hash")


async def test_what_needs_a_person_comes_worst_first_with_its_sentence(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    snapshot = await SnapshotReader(make_context(settings(), redis)).read()
    found = attention.items(snapshot, ENGLISH)
    assert [item.state for item in found] == ["failed", "bad", "qr_ready", "warn", "warn"]
    assert "Clinic Ashdod" in found[0].what
    assert "Request a review" in found[0].do
    assert found[0].href == "/sessions/worker_16"
    hebrew = attention.items(snapshot, HEBREW)
    assert "חסמה" in hebrew[0].what


async def look(redis: Redis, **changes: object) -> Snapshot:
    """The fleet as it is now."""
    return await SnapshotReader(make_context(settings(**changes), redis)).read()


async def test_a_bad_proxy_is_shown_with_its_error_and_its_sessions(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    bad, good = await builder.proxy(1), await builder.proxy(2)
    for number, name in enumerate(("Sales", "Sales", "Clinic"), start=1):
        await builder.connected(f"w{number}", name, f"97250000000{number}", [bad])
    error = {"last_error": "NO_ANSWER:5"}
    assert isinstance(await proxies.mark(scripts, bad, version=1, status="BAD", reason="x", fields=error), Written)
    for name in ("w1", "w2"):
        move = slots.Move(name, bad, f"97250000000{name[1]}", ProxyReason.CHECK_FAILED, [good])
        await slots.move(scripts, move, per_proxy=4)
    item = next(item for item in attention.items(await look(redis), HEBREW) if item.state == "bad")
    assert bad in item.what
    assert item.href == f"/proxies?id={bad}#px-{bad}"
    assert "לא ענה תוך" in item.do
    assert "Clinic" in item.do, "still there"
    assert [spelled_phone(f"97250000000{at}") in item.do for at in (1, 2)] == [True, True], "two have the same name"


async def test_a_proxy_that_has_a_name_is_called_by_it_wherever_it_is_shown(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    bad = await builder.proxy(1)
    await builder.connected("w1", "Clinic", "972500000001", [bad])
    assert isinstance(await proxies.mark(scripts, bad, version=1, status="BAD", reason="x", fields={}), Written)
    await redis.hset(keys.proxy(bad), "name", "Frankfurt <1>")
    snapshot = await look(redis)
    item = next(item for item in attention.items(snapshot, HEBREW) if item.state == "bad")
    assert "Frankfurt &lt;1&gt;" in item.what
    assert bad not in item.what
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "fleet", "en")
    fields = {"type": "proxy.bad", "proxy": bad, "at": "1", "reason": "CHECK_FAILED"}
    for shown in (
        renderer.macros.proxy_cell(view, snapshot.rows["w1"]),
        renderer.macros.session_proxy(view, snapshot.rows["w1"], snapshot.proxies[0]),
        renderer.macros.link_facts(view, snapshot.rows["w1"]),
        live_log.event_text(view, "proxy.bad", fields),
    ):
        assert "Frankfurt &lt;1&gt;" in shown
    assert [row.id for row in fleet.filtered(view, {"q": "frankfurt"})] == ["w1"]
    assert [each.id for each in proxies_page.matching(view, "frankfurt")] == [bad]


async def test_several_bad_proxies_are_one_line_and_one_that_is_emptied_is_none(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    for number, fields in ((1, {}), (2, {}), (3, {"draining": "1"})):
        name = await builder.proxy(number)
        await proxies.mark(scripts, name, version=1, status="BAD", reason="x", fields=fields)
    assert [item.what for item in attention.items(await look(redis), ENGLISH)] == ["2 proxies are bad"]


async def test_missing_slots_are_shown_before_a_session_waits_for_one(redis: Redis, scripts: Scripts) -> None:
    async def said(**changes: object) -> list[str]:
        return [item.what.striptags() for item in attention.items(await look(redis, **changes), ENGLISH)]

    builder = FleetBuilder(scripts)
    assert await said() == ["There is no proxy"]
    assert await said(allow_direct=True) == []
    only = [await builder.proxy(1)]
    assert await said() == []
    for number in range(1, 5):
        await builder.connected(f"w{number}", f"W {number}", f"97250000000{number}", only)
    assert await said() == ["All 4 proxy slots are in use"]
    await builder.put("w4", "disconnected", "WAITING_FOR_PROXY")
    assert await said() == ["W 4 waits for a proxy slot: all 4 are in use"]
    await redis.hset(keys.proxy(only[0]), "status", "BAD")
    assert (await said())[0] == "W 4 waits for a proxy: none works"


async def test_messages_that_were_given_up_lately_need_somebody(redis: Redis, scripts: Scripts) -> None:
    now = await scripts.now_ms()
    hour = now // HOUR_MS
    counted = {f"{hour}:failed": 2, f"{hour - 1}:failed": 1, f"{hour - 2}:failed": 9, f"{hour}:unknown": 1}
    await redis.hset(keys.DASHBOARD_HOURS, mapping=counted)
    await redis.hset(keys.COUNTS, mapping={"failed": 12, "unknown": 1})
    failed, unknown = attention.items(await look(redis, allow_direct=True), ENGLISH)
    assert failed.what.startswith("3 messages failed since")
    assert failed.href == "/messages?status=failed"
    assert unknown.what.endswith("1 message was never confirmed")
    assert unknown.href == "/messages?status=unknown"


async def test_messages_that_were_retried_or_confirmed_late_need_nobody(redis: Redis, scripts: Scripts) -> None:
    now = await scripts.now_ms()
    hour = now // HOUR_MS
    await redis.hset(keys.DASHBOARD_HOURS, mapping={f"{hour}:failed": 2, f"{hour}:unknown": 1})
    await redis.hset(keys.COUNTS, mapping={"failed": 0, "unknown": 0, "sent": 3})
    assert attention.items(await look(redis, allow_direct=True), ENGLISH) == []


async def test_everything_that_needs_attention_can_be_read_however_much_it_is(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1), await builder.proxy(2)]
    reasons = ("BANNED", "TEMPORARY_BAN", "AUTH_FAILURE", "CLIENT_OUTDATED", "REPLACED_ELSEWHERE", "TOO_MANY_RESTARTS")
    for number, reason in enumerate(reasons, 1):
        await builder.connected(f"w{number}", f"W {number}", f"97250000000{number}", pool)
        await builder.put(f"w{number}", "failed", reason)
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "x", "en")
    html = bytes(renderer.page(view, await fleet.show(renderer, view, {})).body).decode()
    assert html.count("<li data-s=") == len(reasons)
    assert "and 1 more</summary>" in html


async def test_sessions_with_the_same_name_are_told_apart_wherever_one_is_shown(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.connected("w1", "Sales", "972500000001", pool)
    await builder.connected("w2", "Sales", "972500000002", pool)
    await builder.session("w3", "Sales", pool)
    await builder.session("w4", "Clinic", pool)
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "x", "he")
    called = {name: view.snapshot.called(row) for name, row in view.snapshot.rows.items()}
    assert called["w4"] == "Clinic"
    assert len(set(called.values())) == 4
    assert "w3" in called["w3"]
    for show in (messages.show, live_log.show, anti_ban.show, fleet.show):
        html = bytes(renderer.page(view, await show(renderer, view, {})).body).decode()
        assert "+972 50-000-0001" in html, show.__module__
        assert "+972 50-000-0002" in html, show.__module__


async def test_a_phone_that_unlinked_itself_is_red_with_when_and_what_waits_also_while_its_code_is_shown(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.connected("w1", "Clinic", "972500000001", pool)
    await redis.hset(keys.session("w1"), "unlinked_at", NOW - 60_000)
    await redis.zadd(keys.queue("972500000001"), {f"m{number}": number for number in range(3)})
    for state, reason in (("pending", "LOGGED_OUT"), ("qr_ready", "LOGGED_OUT"), ("failed", "QR_EXPIRED")):
        await builder.put("w1", state, reason)
        (item,) = attention.items(await look(redis), ENGLISH)
        assert item.state == "failed"
        assert "Clinic" in item.what
        assert "was unlinked on the phone at" in item.what
        assert "3 messages wait." in item.do
        assert item.href == "/scan?id=w1"


async def test_an_unlinked_session_without_a_slot_is_not_told_to_scan_a_code_that_it_does_not_have(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.session("w1"), "unlinked_at", NOW - 60_000)
    await builder.put("w1", "pending", "WAITING_FOR_PROXY")
    (unlinked,) = attention.items(await look(redis), ENGLISH)
    assert "was unlinked on the phone at" in unlinked.what
    assert "Scan" not in unlinked.button
    assert "A new code needs a free proxy slot" in unlinked.do


async def test_unreadable_credentials_offer_a_new_code(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await builder.put("w1", "failed", "AUTH_FAILURE")
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "x", "en")
    for page, query in ((scan, {"id": "w1"}), (session, {"id": "w1"})):
        html = bytes(renderer.page(view, await page.show(renderer, view, query)).body).decode()
        assert 'action="/do/new-code"' in html, page.__name__


async def test_nothing_needs_attention_is_not_said_while_sessions_are_offline_for_long(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1), await builder.proxy(2)]
    now = await scripts.now_ms()
    for number in range(1, 4):
        await builder.connected(f"w{number}", f"W {number}", f"97250000000{number}", pool)
        await builder.put(f"w{number}", "disconnected", "RECONNECTING")
    assert attention.items(await look(redis), ENGLISH) == []
    for number in range(1, 3):  # a new reason does not make it shorter
        await redis.hset(keys.session(f"w{number}"), "lost_at", now - 3_600_000)
    (item,) = attention.items(await look(redis), ENGLISH)
    assert (item.state, item.href) == ("disconnected", "/?state=disconnected")
    assert "2 sessions are offline" in item.what


async def test_failing_webhooks_reachout_locks_and_queues_of_days_need_attention(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    now = await scripts.now_ms()
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    webhook = webhooks.Webhook("wh1", "https://crm.example.com/secret-path", ("*",), "s", "0", now)
    await webhooks.put(scripts, webhook)
    await redis.hset(keys.webhook_state("wh1"), "failing_since", now - 3_600_000)
    await redis.hset(keys.pace("972500000001"), "lock_until", now + 3_600_000)
    await redis.zadd(keys.queue("972500000001"), {f"m{number}": number for number in range(1600)})
    found = attention.items(await look(redis), ENGLISH)
    assert ["locked" in each.what or "webhook" in each.what or "queue" in each.what for each in found] == [True] * 3
    assert "crm.example.com" in found[1].what
    assert "secret-path" not in found[1].what
    assert "The queue of" in found[2].what


async def page_of(redis: Redis, page: Any, query: dict[str, str]) -> str:
    """Return a page in English as an administrator sees it."""
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "x", "en")
    return bytes(renderer.page(view, await page.show(renderer, view, query)).body).decode()


async def test_the_badge_beside_fleet_is_the_number_of_lines_that_need_attention(
    redis: Redis, scripts: Scripts
) -> None:
    await fill(scripts)
    lines = len(attention.items(await look(redis), ENGLISH))
    for page, query in ((fleet, {}), (proxies_page, {}), (session, {"id": "worker_4"})):
        assert f'id="nav-fleet" data-s="failed">{lines}</span>' in await page_of(redis, page, query)


async def test_a_session_that_is_offline_for_long_is_not_said_to_need_nothing(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await builder.put("w1", "disconnected", "RECONNECTING")
    assert "nothing to do" in await page_of(redis, session, {"id": "w1"})
    await redis.hset(keys.session("w1"), "lost_at", await scripts.now_ms() - 3_600_000)
    await redis.delete(keys.session_events("w1"))  # the history tells what was true then
    html = await page_of(redis, session, {"id": "w1"})
    assert "nothing to do" not in html
    assert "Reconnecting has not worked so far." in html


async def test_a_reachout_lock_is_shown_where_its_line_leads(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.pace("972500000001"), "lock_until", await scripts.now_ms() + 3_600_000)
    for page, query in ((anti_ban, {}), (session, {"id": "w1"}), (fleet, {})):
        assert "WhatsApp allows no new contacts until" in await page_of(redis, page, query), page.__name__


async def test_unproven_opt_outs_are_told_on_the_page_of_their_session_as_in_the_list(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    proxy = await builder.proxy(1)
    for name in ("w1", "w2"):
        await builder.connected(name, f"Clinic {name}", f"97250000000{name[1]}", [proxy])
    told = FoundTrouble(
        EventType.SESSION_OPT_OUTS_UNPROVEN, UnprovenOptOuts(SessionId("w1"), Phone("972500000001"), 10), told=True
    )
    await lasting_troubles.report(scripts, {"opt-outs w1": told})
    [item] = [each for each in attention.items(await look(redis), ENGLISH) if each.state == "failed"]
    shown = {name: await page_of(redis, session, {"id": name}) for name in ("w1", "w2")}
    for sentence in (item.what, item.do):
        assert (sentence in shown["w1"], sentence in shown["w2"]) == (True, False)
    await holds.put(scripts, holds.Hold("phone:972500000001", FOREVER_MS, "MANUAL", "Dana"))
    assert item.do in await page_of(redis, session, {"id": "w1"})  # a pause does not hide it


async def test_a_used_up_allowance_of_new_chats_is_shown_where_its_line_leads(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.pace("972500000001"), "cap_until", await scripts.now_ms() + 3_600_000)
    (item,) = attention.items(await look(redis), ENGLISH)
    assert "Clinic" in item.what
    assert "allowance of new chats" in item.what
    for page, query in ((anti_ban, {}), (session, {"id": "w1"}), (fleet, {})):
        assert "The allowance of new chats is used up until" in await page_of(redis, page, query), page.__name__


async def test_only_a_pause_without_an_end_is_said_to_need_an_administrator(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    an_hour_ms = await scripts.now_ms() + 3_600_000
    for until_ms, sentence in ((an_hour_ms, "The pause ends by itself"), (FOREVER_MS, "Only an administrator")):
        await holds.put(scripts, holds.Hold("phone:972500000001", until_ms, "BAN_SIGNAL", holds.SERVER))
        assert sentence in await page_of(redis, anti_ban, {})


async def test_a_worker_that_has_ended_is_not_said_to_use_memory(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.session("w1"), "ping_rss_bytes", 70 * 1048576)
    assert "70 MB" in await page_of(redis, session, {"id": "w1"})
    for state, reason in (("failed", "BANNED"), ("disconnected", "WAITING_FOR_PROXY")):
        await builder.put("w1", state, reason)
        assert "70 MB" not in await page_of(redis, session, {"id": "w1"}), reason


async def test_the_chart_of_the_queue_reaches_what_waits_now(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.rpush(keys.DASHBOARD_QUEUE, f"{await scripts.now_ms() - 30_000}:5")
    await redis.zadd(keys.queue("972500000001"), {f"m{number}": number for number in range(1600)})
    assert "<span>1,600</span><span>0</span>" in await page_of(redis, fleet, {})


async def test_a_session_that_had_no_slot_moved_from_nowhere(redis: Redis) -> None:
    context = make_context(settings(), redis)
    view = await Renderer(context, SnapshotReader(context)).view_as(ADMINISTRATOR, "x", "en")
    moved = {"from": "", "to": "p_c587ce8a3f"}
    assert live_log.event_text(view, "session.moved", moved).striptags() == "moved to p_c587ce8a3f"


async def test_more_of_the_limit_than_was_sent_is_explained_by_attempts(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    assert "Every attempt counts" not in await page_of(redis, session, {"id": "w1"})
    now_ms = await scripts.now_ms()
    await redis.zadd(keys.sent("972500000001"), {f"m1:{attempt}": now_ms for attempt in range(3)})
    assert "Every attempt counts towards the limit" in await page_of(redis, session, {"id": "w1"})


async def test_an_unlinked_phone_is_said_to_be_unlinked_on_its_page_and_in_its_row_whatever_it_waits_for(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.session("w1"), mapping={"unlinked_at": await scripts.now_ms(), "first_connected_at": 0})
    for state, reason in (("pending", "WAITING_FOR_PROXY"), ("pending", "STARTING"), ("qr_ready", "LOGGED_OUT")):
        await builder.put("w1", state, reason)
        shown, listed = await page_of(redis, session, {"id": "w1"}), await page_of(redis, fleet, {})
        assert 'data-s="failed"><svg' in shown.partition('id="session-why"')[2][:200], reason
        assert "Unlinked on the phone at" in shown, reason
        assert "Unlinked on the phone at" in listed, reason
        assert "continues automatically" not in shown.partition('id="session-today"')[0], "it must be scanned"
        assert "starts when it is linked" in shown, "trust has no day yet"
        assert "day 1;" not in shown


async def test_a_suspension_says_when_it_ends_wherever_it_is_shown(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await builder.put("w1", "failed", "TEMPORARY_BAN")
    (item,) = attention.items(await look(redis), ENGLISH)
    assert "Sending resumes by itself" in item.do, "WhatsApp gave no end"
    await redis.hset(keys.session("w1"), "ban_ends_at", NOW + 3_600_000)
    (item,) = attention.items(await look(redis), ENGLISH)
    assert item.do.striptags().strip().startswith("Sending resumes at 13:00.")
    assert re.search("Sending resumes .*at ", await page_of(redis, session, {"id": "w1"}))


@pytest.mark.parametrize("reason", ["BANNED", "TEMPORARY_BAN", "LOGGED_OUT"])
async def test_what_happened_to_a_session_is_said_once_in_its_line(redis: Redis, scripts: Scripts, reason: str) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.zadd(keys.queue("972500000001"), {f"m{number}": number for number in range(3)})
    if reason == "LOGGED_OUT":
        await redis.hset(keys.session("w1"), "unlinked_at", NOW - 60_000)
        await builder.put("w1", "qr_ready", reason)
    else:
        await builder.put("w1", "failed", reason)
    (item,) = attention.items(await look(redis), ENGLISH)
    assert item.what.startswith("WhatsApp") or "was unlinked" in item.what
    assert re.search(r"WhatsApp|unlinked", item.do) is None
    assert len(re.findall(r"on hold|wait\b", item.do)) == 1


async def test_the_page_of_a_failed_session_begins_with_the_reason(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await builder.put("w1", "failed", "BANNED")
    renderer = Renderer(context := make_context(settings(), redis), SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "session", "en")
    assert "<b>Banned by WhatsApp</b>" in (await session.parts(renderer, view, {"id": "w1"}))["session-why"]


async def test_deliveries_of_a_webhook_come_in_the_order_of_their_times_with_why_they_wait(
    redis: Redis, scripts: Scripts
) -> None:
    now = await scripts.now_ms()
    await webhooks.put(scripts, webhooks.Webhook("wh1", "https://crm.example.com/", ("*",), "s", "0", now))
    for number in range(3):  # the oldest was tried last
        kept = {"webhook": "wh1", "event": f"{number}-0", "type": "session.connected", "status": "waiting"}
        kept |= {"made_at": str(NOW + number * 60_000), "tried_at": str(NOW + (9 - number) * 60_000)}
        kept |= {"next_at": str(NOW + 3_600_000), "note": "ConnectError"}
        await redis.hset(keys.delivery("wh1", f"{number}-0"), mapping=kept)
        await redis.zadd(keys.delivery_log("wh1"), {f"{number}-0": NOW + number * 60_000})
    shown = Markup(await page_of(redis, settings_page, {})).striptags()
    assert re.findall(r"12:0\d:00", shown) == ["12:02:00", "12:01:00", "12:00:00"]
    assert len(re.findall(r"unreachable; next attempt [^;]*?at 13:00:00", shown)) == 3


async def test_the_history_of_a_session_gives_no_advice_of_another_time(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    fields: Any = {"type": "session.disconnected", "session": "w1", "reason": "RECONNECTING", "at": NOW}
    await redis.xadd(keys.session_events("w1"), fields)
    await redis.xadd(keys.EVENTS, fields)
    for page, query in ((session, {"id": "w1"}), (live_log, {})):
        html = await page_of(redis, page, query)
        assert "Reconnecting" in html, page.__name__
        assert "nothing to do" not in html.partition('id="session-history"')[2] or page is not session
    assert "nothing to do" not in await page_of(redis, live_log, {})


async def test_messages_that_were_never_confirmed_are_among_the_figures_of_the_day(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    for page, query in ((session, {"id": "w1"}), (fleet, {})):
        assert "<span>not confirmed</span>" not in await page_of(redis, page, query)
    await redis.hset(keys.stats("w1", await builder._day()), "unknown", 1)
    for page, query in ((session, {"id": "w1"}), (fleet, {})):
        assert "<b>1</b><span>not confirmed</span>" in await page_of(redis, page, query), page.__name__


async def test_a_webhook_is_named_by_its_host_in_the_log_and_in_the_audit_log(redis: Redis, scripts: Scripts) -> None:
    hook = webhooks.Webhook("wh_1", "https://crm.example.com/secret", ("*",), "s", "0", 1)
    await webhooks.put(scripts, hook)
    await audit.add(scripts, audit.AuditRecord(1, "", 1, "dashboard:Dana", "", "webhook.add", "wh_1"), {})
    fields: Any = {"type": "webhook.failing", "webhook": "wh_1", "since": NOW, "at": NOW}
    await redis.xadd(keys.EVENTS, fields)
    assert "crm.example.com" in await page_of(redis, live_log, {})
    rows = (await page_of(redis, settings_page, {})).partition('id="au-h"')[2]
    assert "crm.example.com" in rows
    assert ">wh_1<" not in rows


async def test_people_and_keys_have_their_names_in_the_audit_log(redis: Redis, scripts: Scripts) -> None:
    gili = await people.create(scripts, "Gili", Role.VIEWER, ())
    key, _ = await api_keys.create(scripts, "CRM", [Scope.READ])
    for action, target in (("person.add", gili.id), ("key.create", key.id), ("person.delete", "a_gone")):
        await audit.add(scripts, audit.AuditRecord(1, "", 1, "dashboard:Dana", "", action, target), {})
    rows = (await page_of(redis, settings_page, {})).partition('id="au-h"')[2]
    assert [each for each in ("Gili", "CRM", "a_gone") if f">{each}<" in rows] == ["Gili", "CRM", "a_gone"]
    assert f">{gili.id}<" not in rows


@pytest.mark.parametrize(("language", "said"), [("en", "Time left"), ("he", "הזמן שנותר")])
@pytest.mark.parametrize("stage", ["required", "sent", "confirm"])
async def test_each_step_of_a_passkey_that_has_an_end_shows_the_time_left_and_renders_the_same_at_any_time(
    redis: Redis, scripts: Scripts, language: str, said: str, stage: str
) -> None:
    await fill(scripts)
    epoch = int(await redis.hget(keys.session("worker_18"), "epoch") or 0)
    ceremony = PasskeyCeremony(stage, epoch, 1, options='{"challenge": "AAAA"}', expires_at_ms=4_000_000_000_000)
    await passkeys.put(scripts, "worker_18", ceremony)
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "x", language)
    first, second = [(await passkey.parts(renderer, view, {"id": "worker_18"}))["passkey"] for _ in range(2)]
    assert said in first
    assert 'data-until="4000000000000"' in first
    assert first == second, "an answer that is being pasted into it were lost"


async def test_no_headline_contradicts_what_is_below_it(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    asked = await page_of(redis, passkey, {"id": "worker_18"})
    assert "does not ask for a passkey now" in asked
    assert "WhatsApp asks for this account’s passkey" not in asked
    renderer = Renderer(make_context(settings(), redis), SnapshotReader(make_context(settings(), redis)))
    for language, said in (
        ("en", "4 of 6 jobs are fine; 1 failed, 1 has not run yet"),
        ("he", "4 מתוך 6 משימות תקינות; אחת נכשלה, ואחת עוד לא רצה"),
    ):
        view = await renderer.view_as(ADMINISTRATOR, "jobs", language)
        assert renderer.operations.jobs_headline(view, 6, 1, 1).striptags() == said


async def test_a_long_queue_says_how_much_of_it_is_shown(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    for number in range(21):
        await builder.message(number, "w1", "972500000001", f"9725244{number:05d}", "Hello")
    assert "The first 20 of 21. Show all" in await page_of(redis, session, {"id": "w1"})


async def test_the_choice_of_presence_names_what_the_server_is_set_to(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    assert "server default: always" in await page_of(redis, session, {"id": "w1"})


async def test_everybody_who_was_linked_today_is_counted_on_the_scan_page(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1), await builder.proxy(2)]
    for number in range(1, 9):
        await builder.connected(f"w{number}", f"W {number}", f"97250000000{number}", pool, days=0)
    await builder.put("w8", "disconnected", "RECONNECTING")
    assert 'Linked today</h2><span class="count">8</span>' in await page_of(redis, scan, {})


async def test_a_message_that_returned_to_its_queue_is_not_said_to_be_accepted_again(
    redis: Redis, scripts: Scripts
) -> None:
    for note in ("", "RATE_LIMITED"):
        fields: Any = {"type": "message.queued", "message": "m_1", "session": "w1", "note": note, "at": NOW}
        await redis.xadd(keys.EVENTS, fields)
    html = await page_of(redis, live_log, {})
    assert html.count('<bdi class="ltr">m_1</bdi> accepted') == 1
    assert '<bdi class="ltr">m_1</bdi> returned to its queue: WhatsApp asked to slow down.' in html


async def test_a_phone_that_was_asked_to_send_less_says_so_on_its_page_in_its_row_and_on_anti_ban(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.pace("972500000001"), "slowdowns", 1)
    pages = ((session, {"id": "w1"}), (fleet, {}), (anti_ban, {}))
    for page, query in pages:
        assert "WhatsApp asked it to send less" not in await page_of(redis, page, query), "nothing waits"
    await redis.zadd(keys.queue("972500000001"), {"m1": 1})
    for page, query in pages:
        assert "WhatsApp asked it to send less" in await page_of(redis, page, query), page.__name__


async def test_an_opt_out_that_holds_for_one_phone_says_for_which_and_nothing_says_more(
    redis: Redis, scripts: Scripts
) -> None:
    never = "No message is sent to them."
    assert never not in await page_of(redis, anti_ban, {})
    await contacts.opt_out(scripts, "972511111111", word="STOP", via="reply")
    assert never in await page_of(redis, anti_ban, {})
    await contacts.opt_out_from(scripts, "972522222222", phone="972500000001")
    page = await page_of(redis, anti_ban, {})
    assert page.count("for this phone only") == 1
    assert never not in page
    assert "where a phone is named, none from that phone" in page
