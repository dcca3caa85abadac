"""Sentences stay true: on another day, with other settings, for people who see some sessions only, after a drain."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from redis.asyncio import Redis

from tests.dashboard.sample_fleet import FleetBuilder
from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet import attention
from wa_orchestrator.dashboard.fleet.snapshot import FailedMessages
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.locale import Locale, ltr
from wa_orchestrator.dashboard.html.renderer import Renderer, View
from wa_orchestrator.dashboard.internal_api import ApiResponse
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.dashboard.pages import anti_ban, audit, fleet, live_log, messages, scan, session
from wa_orchestrator.dashboard.pages import proxies as proxies_page
from wa_orchestrator.dashboard.routes import actions
from wa_orchestrator.domain.access.permissions import EVERYTHING, Only, Reach, Role
from wa_orchestrator.domain.pacing.limits import PRESETS, Preset, Trust
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.store import keys, proxies
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.outcomes import Written

NOON = 1_750_075_200_000  # Monday, 16 June 2025, 12:00 UTC
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
ENGLISH, HEBREW = (Locale(language, ZoneInfo("UTC"), NOON) for language in ("en", "he"))


async def renderer_of(redis: Redis, **changes: object) -> Renderer:
    context = make_context(settings(**changes), redis)
    return Renderer(context, SnapshotReader(context))


async def view_of(renderer: Renderer, reach: Reach = EVERYTHING, language: str = "en") -> View:
    role = Role.ADMINISTRATOR if reach is EVERYTHING else Role.OPERATOR
    return await renderer.view_as(Person(role, "Dana", "c" * 40, "hash", reach=reach), "x", language)


async def page_of(
    redis: Redis, page: Any, query: Mapping[str, str], reach: Reach = EVERYTHING, **changes: object
) -> str:
    renderer = await renderer_of(redis, **changes)
    view = await view_of(renderer, reach)
    return bytes(renderer.page(view, await page.show(renderer, view, query)).body).decode()


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("RISK", "These limits are above the preset and risk a ban. Send acknowledgeRisk: true to accept that."),
        ("PROXY_IN_USE", "2 sessions use this proxy. Delete it with ?drain=true to move them first."),
        ("NO_SUCH_PROXY", "There is no proxy p_1. GET /api/v1/proxies lists them."),
        ("CONFIRMATION_REQUIRED", 'To start it all the same, on the same proxy, send {"confirm": "BANNED"}.'),
        ("KEY_LIMITED", "This API key is limited to some sessions; this is about all of them."),
        ("SCOPE_MISSING", "This API key lacks the scope `admin`. Use a key that has it."),
        ("OPTED_OUT", "The recipient opted out. Remove the opt-out first: /api/v1/opt-outs."),
        ("BACKUP_OLDER", 'To restore all the same, send {"acceptOlder": true}.'),
    ],
)
def test_people_are_not_told_which_request_a_program_should_send(code: str, message: str) -> None:
    said = actions.error_sentence(code, message, ENGLISH)
    assert said == ENGLISH.t(f"error.{code}")
    assert not re.search("[{}?`]|GET|true|/api|API key", said)


def test_an_error_without_advice_for_programs_keeps_its_details() -> None:
    message = "24 sessions need a slot and 12 are free. Add a proxy first."
    assert actions.error_sentence("NO_ROOM_TO_DRAIN", message, ENGLISH) == message


async def test_what_came_of_a_button_names_sessions_and_proxies_as_people_know_them(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    proxy = await builder.proxy(1)
    await redis.hset(keys.proxy(proxy), "name", "Frankfurt <1>")
    for number in (1, 2):
        await builder.connected(f"w{number}", f"Branch {number}", f"97250000000{number}", [proxy])
    view = await view_of(await renderer_of(redis))
    refused = ApiResponse(409, {"error": {"code": "ALREADY_RUNS", "message": "It runs."}})
    asked = [{"id": "w1"}, {"id": "w2"}]
    outcome = actions.outcome_of(
        "restart", actions.find("restart"), asked, [ApiResponse(200, {}), refused], view, known_as=view.known_as
    )
    assert outcome.lines == ["<bdi>Branch 2</bdi>: It runs."]
    checked = actions.outcome_of(
        "proxy-check",
        actions.find("proxy-check"),
        [{"id": proxy}],
        [ApiResponse(200, {})],
        view,
        known_as=view.known_as,
    )
    assert "Frankfurt &lt;1&gt;" in checked.text
    assert proxy not in checked.text


@pytest.mark.parametrize("act", ["message-react", "message-edit"])
def test_what_whatsapp_has_taken_is_not_said_to_be_on_a_phone_that_may_be_switched_off(act: str) -> None:
    said = [actions.outcome_of(act, actions.find(act), [{"id": "m_1"}], [ApiResponse(200, {})], each).text
            for each in (ENGLISH, HEBREW)]  # fmt: skip
    assert all("WhatsApp" in each for each in said)
    assert not any(word in each for each in said for word in ("phone", "טלפון"))


# -- days --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_ms", "english", "hebrew"),
    [
        (-HOUR_MS, "at 11:00", "ב־11:00"),
        (-DAY_MS, "yesterday at 12:00", "אתמול ב־12:00"),
        (DAY_MS, "tomorrow at 12:00", "מחר ב־12:00"),
        (-3 * DAY_MS, "on Fri at 12:00", "ביום ו׳ ב־12:00"),
        (5 * DAY_MS, "on Sat at 12:00", "בשבת ב־12:00"),
        (-30 * DAY_MS, "on 17 May at 12:00", "ב־17 במאי ב־12:00"),
    ],
)
def test_an_instant_within_a_sentence_is_said_with_its_day_as_people_say_it(
    after_ms: int, english: str, hebrew: str
) -> None:
    assert [each.when(NOON + after_ms).striptags() for each in (ENGLISH, HEBREW)] == [english, hebrew]


def test_about_when_a_message_is_sent_is_said_with_its_day() -> None:
    at = ENGLISH.about(NOON + DAY_MS)
    assert ENGLISH.t("message.leaves_about", at=at).striptags() == "Sends tomorrow at about 12:00"
    assert HEBREW.about(NOON).striptags() == "בערך ב־12:00"


async def test_a_phone_that_was_unlinked_yesterday_is_said_to_have_been_so_yesterday(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.session("w1"), "unlinked_at", NOON - DAY_MS)
    await builder.put("w1", "pending", "LOGGED_OUT")
    snapshot = await SnapshotReader(make_context(settings(), redis)).read()
    (item,) = attention.items(snapshot, ENGLISH)
    assert item.what.striptags() == "Clinic was unlinked on the phone yesterday at 12:00"


def test_shortly_after_midnight_failed_messages_are_counted_since_yesterday() -> None:
    failed = FailedMessages(failed=2, since_ms=NOON - 13 * HOUR_MS)
    midnight = Locale("en", ZoneInfo("UTC"), NOON - 11 * HOUR_MS - 3_000_000)
    (item,) = attention._failed_messages(failed, midnight)
    assert item.what.striptags() == "2 messages failed since yesterday 23:00"


@pytest.mark.parametrize(
    ("opens", "closes", "parts"),
    [
        (time(9), time(21), [(9, 21)]),
        (time(22), time(6, 30), [(0, 6.5), (22, 24)]),
        (time(18), time(0), [(18, 24)]),
        (time(8), time(8), [(0, 24)]),
    ],
)
def test_sending_hours_are_drawn_whole_also_past_midnight(
    opens: time, closes: time, parts: list[tuple[float, float]]
) -> None:
    pace = replace(PRESETS[Preset.STANDARD][Trust.HOT], opens=opens, closes=closes)
    assert session.hours_of_day(pace) == parts


# -- settings ----------------------------------------------------------------------------------------------------------


async def test_the_first_page_tells_the_limits_and_slots_of_this_installation(redis: Redis) -> None:
    html = await page_of(redis, fleet, {}, pacing_preset="conservative", max_sessions_per_proxy=2)
    assert "New phones start at 10 messages a day" in html
    assert "A proxy has 2 slots" in html


async def test_before_a_deletion_it_is_said_how_long_the_trash_keeps_credentials_here(redis: Redis) -> None:
    html = await page_of(redis, fleet, {}, trash_days=30)
    assert "Credentials stay in the trash for 30 days." in html


# -- lists and messages ------------------------------------------------------------------------------------------------


async def test_the_longest_queues_stay_first_on_the_next_page_and_the_list_says_so(
    redis: Redis, scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    for number in (1, 2):
        await builder.connected(f"w{number}", f"W {number}", f"97250000000{number}", pool)
    await redis.zadd(keys.queue("972500000002"), {"m1": 1})
    monkeypatch.setattr(fleet, "PAGE_SIZE", 1)
    html = await page_of(redis, fleet, {"sort": "queue"})
    assert 'id="row-w2"' in html
    assert "of 2, the longest queue first" in html
    assert "sort=queue&amp;page=1" in html
    assert "those that need attention first" in await page_of(redis, fleet, {"sort": "nonsense"})


@pytest.mark.parametrize(("status", "said"), [("sent", True), ("read", True), ("cancelled", False), ("expired", False)])
async def test_only_a_message_that_went_out_is_said_to_be_past_cancelling(
    redis: Redis, scripts: Scripts, status: str, said: bool
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    message = await builder.message(1, "w1", "972500000001", "972521000001", "Hello")
    await redis.hset(keys.message(message), "status", status)
    assert ("Cancel is no longer possible" in await page_of(redis, messages, {"id": message})) is said


async def test_a_linked_session_that_starts_again_is_not_said_to_wait_for_a_code(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.connected("w1", "Clinic", "972500000001", pool)
    await builder.session("w2", "New", pool)
    await builder.put("w1", "pending", "WAITING_FOR_TURN")

    async def waiting() -> list[str]:
        return [row.id for row in scan.lists(await view_of(await renderer_of(redis)))[0]]

    assert await waiting() == ["w2"]
    await redis.hset(keys.session("w1"), "unlinked_at", NOON)
    assert sorted(await waiting()) == ["w1", "w2"]


async def test_linked_today_is_not_said_of_yesterday(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    view = await view_of(await renderer_of(redis))
    row = view.snapshot.rows["w1"]
    for at_ms, shown in ((NOON - 11 * HOUR_MS, True), (NOON - 13 * HOUR_MS, False)):
        linked = replace(row, session=replace(row.session, first_connected_at=at_ms))
        then = replace(view, now_ms=NOON, snapshot=replace(view.snapshot, rows={"w1": linked}))
        assert bool(scan.lists(then)[1]) is shown


async def test_no_more_than_all_messages_are_said_to_be_delivered(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    await redis.hset(keys.stats("w1", await builder._day()), mapping={"sent": 10, "delivered": 14})
    shown = (await fleet.parts(await renderer_of(redis), await view_of(await renderer_of(redis)), {}))["figures"]
    assert "100.0%" in shown, "four of them were sent yesterday"


# -- a proxy that is drained -------------------------------------------------------------------------------------------


async def _drained(redis: Redis, scripts: Scripts) -> str:
    builder = FleetBuilder(scripts)
    proxy = await builder.proxy(1)
    await builder.connected("w1", "Clinic", "972500000001", [proxy])
    mark = await proxies.mark(
        scripts, proxy, version=1, status="BAD", reason=ProxyReason.DRAINED, fields={"draining": True}
    )
    assert isinstance(mark, Written)
    return proxy


async def test_a_proxy_that_an_operator_drains_is_not_said_to_have_failed_or_to_recover(
    redis: Redis, scripts: Scripts
) -> None:
    proxy = await _drained(redis, scripts)
    html = await page_of(redis, proxies_page, {})
    shown = html[html.index(f'id="px-{proxy}"') :].partition('class="row nowrap acts"')[0]
    assert "Draining" in shown
    assert not re.search("Failed|Bad|[Rr]ecovers", shown)
    assert "1 session is still on it." in shown


async def test_the_log_does_not_call_a_drain_a_failure(redis: Redis, scripts: Scripts) -> None:
    proxy = await _drained(redis, scripts)
    (entry,) = [fields for _, fields in await redis.xrange(keys.EVENTS) if fields["type"] == "proxy.bad"]
    view = await view_of(await renderer_of(redis))
    said = live_log.explained_text(view, "proxy.bad", entry).striptags()
    assert said == f"{proxy} is being drained; its sessions move to other proxies"
    html = await page_of(redis, live_log, {"levels": "error"})
    assert proxy not in html.partition("<main")[2]


# -- people who see some sessions only ---------------------------------------------------------------------------------

MINE = Only(sessions=frozenset({"w1"}))


async def test_slots_that_others_use_are_not_called_free_to_whoever_does_not_see_them(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    for number in range(1, 4):
        await builder.connected(f"w{number}", f"W {number}", f"97250000000{number}", pool)
    html = await page_of(redis, session, {"id": "w1"}, MINE)
    shown = html[html.index('id="session-proxy"') :].partition("</section>")[0]
    assert (shown.count("free slot"), shown.count("in use")) == (1, 2)
    assert "W 2" not in html
    assert 'href="/proxies' not in html, "they may not open it"
    snapshot = (await view_of(await renderer_of(redis), MINE)).snapshot
    assert snapshot.free_slots == 1


async def test_whoever_sees_no_session_yet_is_not_told_to_set_up_the_server(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.connected("w2", "W 2", "972500000002", pool)
    html = await page_of(redis, fleet, {}, MINE)
    assert "It has no phone yet" not in html
    assert "There is no proxy" not in html
    assert "no proxies yet" not in html
    assert "You see no session yet" in html
    assert "Nothing needs attention." in html


async def test_whoever_may_not_add_a_proxy_is_told_whom_to_ask_for_one(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.connected("w1", "Clinic", "972500000001", pool)
    await builder.connected("w2", "W 2", "972500000002", pool)
    await redis.hset(keys.session("w1"), "proxy", "")
    await redis.srem(keys.sessions_of_proxy(pool[0]), "w1")
    await builder.put("w1", "disconnected", "WAITING_FOR_PROXY")
    view = await view_of(await renderer_of(redis), MINE)
    (item,) = attention.items(view.snapshot, ENGLISH)
    assert item.what.striptags() == "Clinic waits for a proxy slot"
    assert "Ask an administrator" in item.do
    assert item.href == "/sessions/w1"
    assert "none works" not in view.reason("WAITING_FOR_PROXY")


async def test_whoever_may_not_read_the_opt_outs_is_not_told_that_there_are_none(
    redis: Redis, scripts: Scripts
) -> None:
    await contacts.opt_out(scripts, "972511111111", word="STOP", via="reply")
    html = await page_of(redis, anti_ban, {}, MINE)
    assert "Nobody has opted out" not in html
    assert "Only people who see all sessions can read it" in html
    assert 'data-open="hold-all"' not in html, "they may not pause everything"


def test_an_id_without_a_name_is_written_from_the_left() -> None:
    asked, answer = [{"id": "p_1"}], [ApiResponse(200, {})]
    assert ltr("p_1") in actions.outcome_of("proxy-check", actions.find("proxy-check"), asked, answer, HEBREW).text


async def test_an_act_of_yesterday_names_its_day_once(redis: Redis, scripts: Scripts) -> None:
    entry = {"at": await scripts.now_ms() - 86_400_000, "by": "dashboard:Dana", "action": "hold.add", "target": "all"}
    await redis.xadd(keys.AUDIT, dict(entry))
    shown = " ".join(re.sub(r"<[^>]+>", " ", await page_of(redis, audit, {})).split())
    assert re.search(r"yesterday \d\d:\d\d:\d\d", shown)
    assert not re.search(r"[A-Z][a-z]{2} yesterday", shown)
