"""What the pages are made of: strips, counts, what needs a person, and how a form becomes a call."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from datetime import time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from starlette.datastructures import FormData

from tests.dashboard.sample_fleet import FleetBuilder, fill
from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet import history
from wa_orchestrator.dashboard.fleet.availability import DAY_MS, Change, day_of
from wa_orchestrator.dashboard.fleet.snapshot import natural
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html import charts
from wa_orchestrator.dashboard.html.locale import Locale
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.internal_api import ApiResponse
from wa_orchestrator.dashboard.live import Hub
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.dashboard.pages import fleet, live_log, messages, passkey, scan, session
from wa_orchestrator.dashboard.routes import actions
from wa_orchestrator.domain.access.permissions import Role
from wa_orchestrator.domain.pacing.limits import PRESETS, Preset, Trust
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.store import keys, proxies, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events.activity import HOUR_MS
from wa_orchestrator.store.sessions.passkeys import PasskeyCeremony

NOW = 1_750_075_200_000
ENGLISH = Locale("en", ZoneInfo("UTC"), NOW)
HEBREW = Locale("he", ZoneInfo("Asia/Jerusalem"), NOW)


def changed(ago_ms: int, state: str, reason: str = "") -> Change:
    """What became of a session so long ago."""
    return Change(NOW - ago_ms, State(state), reason)


LINKED = changed(2 * DAY_MS, "connected")


@pytest.mark.parametrize(
    ("changes", "beats", "share"),
    [
        # what lasted for minutes colours its quarter, what lasted for seconds does not
        ([changed(HOUR_MS, "failed", "BANNED"), changed(HOUR_MS - 120_000, "connected")], {"good": 95, "bad": 1}, 0.9986),
        ([changed(HOUR_MS, "disconnected", "RECONNECTING"), changed(HOUR_MS - 5000, "connected")], {"good": 96}, 0.9999),
        # how it is now is always shown
        ([changed(3000, "disconnected", "RECONNECTING")], {"good": 95, "warn": 1}, 1.0),
        # what its operator asked for is neither good nor bad
        ([changed(12 * HOUR_MS, "stopped", "STOPPED_BY_OPERATOR")], {"good": 48, "off": 48}, 1.0),
        ([changed(HOUR_MS, "disconnected", "RESTARTING"), changed(HOUR_MS - 120_000, "connected")], {"good": 96}, 1.0),
        ([changed(HOUR_MS, "disconnected", "SERVER_STOPPED"), changed(1, "connected")], {"good": 93, "off": 3}, 1.0),
        # from the start of its worker on it is its own time again
        ([changed(HOUR_MS, "disconnected", "SERVER_STOPPED"), changed(HOUR_MS // 2, "disconnected", "RECONNECTING")], {"good": 92, "off": 2, "warn": 2}, 0.9787),
        ([changed(HOUR_MS, "stopped", "STOPPED_BY_OPERATOR"), changed(HOUR_MS // 2, "pending", "STARTING")], {"good": 92, "off": 2, "warn": 2}, 0.9787),
        ([changed(HOUR_MS, "stopped", "STOPPED_BY_OPERATOR"), changed(HOUR_MS - 20_000, "pending", "WAITING_FOR_TURN"), changed(HOUR_MS - 200_000, "connected")], {"good": 96}, 1.0),
        # a start does not wash away what made it necessary
        ([changed(HOUR_MS, "failed", "TOO_MANY_RESTARTS"), changed(HOUR_MS // 2, "pending", "STARTING")], {"good": 92, "bad": 4}, 0.9583),
        ([changed(HOUR_MS, "disconnected", "WORKER_CRASHED")], {"good": 92, "warn": 4}, 0.9583),
        # an operator unlinked it
        ([changed(HOUR_MS, "pending", "LOGGED_OUT"), changed(HOUR_MS - 9000, "qr_ready", "SCAN_THE_CODE")], {"good": 92, "off": 4}, 0.9999),
        # its phone did: that is an outage until it is linked again
        ([changed(HOUR_MS, "pending", "LOGGED_OUT"), changed(HOUR_MS - 9000, "qr_ready", "LOGGED_OUT")], {"good": 92, "bad": 4}, 0.9583),
        ([changed(HOUR_MS, "qr_ready", "LOGGED_OUT"), changed(HOUR_MS // 2, "failed", "QR_EXPIRED")], {"good": 92, "bad": 4}, 0.9583),
    ],
)  # fmt: skip
def test_a_strip_shows_what_went_wrong_and_not_what_was_asked_for(
    changes: list[Change], beats: dict[str, int], share: float
) -> None:
    day = day_of([LINKED, *changes], NOW)
    assert Counter(day.beats) == beats
    assert day.share == pytest.approx(share, abs=0.0001)


@pytest.mark.parametrize(
    ("sent", "top"), [([0], 1), ([3], 4), ([10], 10), ([11], 20), ([130, 160], 200), ([999], 1000)]
)
def test_the_top_of_a_chart_is_a_number_that_people_count_in(sent: list[int], top: int) -> None:
    assert charts.top_of(sent, [0] * len(sent)) == top


def test_what_was_never_linked_is_off_and_has_no_share() -> None:
    day = day_of([changed(HOUR_MS, "qr_ready"), changed(60_000, "failed", "QR_EXPIRED")], NOW)
    assert (set(day.beats), day.share) == ({"off"}, None)


@given(
    st.lists(
        st.builds(
            Change,
            st.integers(NOW - 3 * DAY_MS, NOW),
            st.sampled_from(State),
            st.sampled_from(["", "RESTARTING", "STARTING", "LOGGED_OUT"]),
        ),
        max_size=40,
    )
)
def test_a_strip_has_always_96_beats_and_a_share_between_none_and_all(changes: list[Change]) -> None:
    day = day_of(sorted(changes, key=lambda change: change.at_ms), NOW)
    assert len(day.beats) == charts.QUARTERS
    assert day.share is None or 0 <= day.share <= 1
    drawn = charts.strip(day.beats, "x")
    assert sum(drawn.count(f'class="{kind}"') for kind in ("good", "warn", "bad", "off")) == len(set(day.beats))


async def test_two_history_recorders_count_an_event_once(scripts: Scripts) -> None:
    now = await scripts.now_ms()
    for at in range(5):
        await scripts.redis.xadd(keys.EVENTS, {"type": "message.sent", "at": now - at, "session": "w"})
    await scripts.redis.xadd(keys.EVENTS, {"type": "message.failed", "at": now, "session": "w"})
    await history.record(scripts)
    await history.record(scripts)
    sent, failed = await history.per_hour(scripts, now)
    assert (sum(sent), sum(failed)) == (5, 1)


async def test_each_check_of_a_proxy_is_stored_once(scripts: Scripts) -> None:
    await proxies.add(scripts, "p1", url="socks5h://u:fake@a.example.com:1", masked="m", origin="operator")
    for checked_at, fields in ((1, {"latency_ms": 90}), (1, {}), (2, {"last_error": "refused"})):
        await scripts.redis.hset(keys.proxy("p1"), mapping={"checked_at": checked_at, **fields})
        await history.record(scripts)
    assert await history.health(scripts, ["p1"]) == {"p1": [90, -1]}


async def test_the_queue_depth_is_stored_once_a_minute(scripts: Scripts) -> None:
    await scripts.redis.hset(keys.COUNTS, mapping={"queued": 7, "sending": 1, "read": 90})
    await history.record(scripts)
    await history.record(scripts)
    assert await scripts.redis.llen(keys.DASHBOARD_QUEUE) == 1
    depths = await history.depths(scripts, await scripts.now_ms() + 1)
    assert depths == [-1] * 95 + [7]
    assert "M95 40V" in charts.area(depths, "x")


async def test_a_session_that_nothing_happened_to_is_not_read_again(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.session("w1", "One", pool)
    await builder.session("w2", "Two", pool)
    reader = SnapshotReader(make_context(settings(), redis))
    await reader.read()
    await redis.hset(keys.session("w1"), "label", "Uno")
    await redis.hset(keys.session("w2"), "label", "Due")
    reader.mark_changed(["w2"])
    snapshot = await reader.read()
    assert (snapshot.rows["w1"].name, snapshot.rows["w2"].name) == ("One", "Due")
    reader.mark_all_changed()
    assert (await reader.read()).rows["w1"].name == "Uno"


async def test_concurrent_readers_get_the_same_snapshot(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    reader = SnapshotReader(make_context(settings(), redis))
    await reader.read()
    await builder.session("w1", "One", [await builder.proxy(1)])
    reader.mark_changed(["w1"])
    assert [list(each.rows) for each in await asyncio.gather(*[reader.read() for _ in range(5)])] == [["w1"]] * 5
    await builder.session("w2", "Two", [await builder.proxy(2)])
    reader.mark_all_changed()
    assert [list(each.rows) for each in await asyncio.gather(*[reader.read() for _ in range(5)])] == [["w1", "w2"]] * 5


async def test_what_could_not_be_read_is_read_the_next_time(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    reader = SnapshotReader(make_context(settings(), redis))
    await reader.read()
    await builder.session("w1", "One", [await builder.proxy(1)])
    reader.mark_changed(["w1"])
    kept = await redis.hgetall(keys.session("w1"))
    await redis.set(keys.session("w1"), "damaged")
    with pytest.raises(ResponseError):
        await reader.read()
    await redis.delete(keys.session("w1"))
    await redis.hset(keys.session("w1"), mapping=kept)
    assert list((await reader.read()).rows) == ["w1"]


async def test_a_page_knows_what_happened_a_moment_before_it_was_asked_for(redis: Redis, scripts: Scripts) -> None:
    reader = SnapshotReader(make_context(settings(), redis))
    hub = Hub(make_context(settings(), redis), reader)
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.session("w1", "One", pool)
    hub.cursor = str((await redis.xrevrange(keys.EVENTS, count=1))[0][0])
    await reader.read()
    await builder.session("w2", "Two", pool)
    await hub.catch_up()
    assert list((await reader.read()).rows) == ["w1", "w2"]


async def test_a_page_reads_nothing_again_where_nothing_ever_happened(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    await builder.session("w1", "One", [await builder.proxy(1)])
    await redis.delete(keys.EVENTS)
    reader = SnapshotReader(make_context(settings(), redis))
    await reader.read()
    await redis.hset(keys.session("w1"), "label", "Uno")
    await Hub(make_context(settings(), redis), reader).catch_up()
    assert (await reader.read()).rows["w1"].name == "One"


async def test_a_waiting_message_says_why_and_when_it_leaves(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    renderer = Renderer(make_context(settings(), redis), SnapshotReader(make_context(settings(), redis)))
    view = await renderer.view_as(None, "messages", "en")
    details = await messages.details_of(renderer, view, f"m_{10:018x}")
    assert details is not None
    assert details.can_cancel
    assert details.eta
    done = await messages.details_of(renderer, view, f"m_{1:018x}")
    assert done is not None
    assert [step.status for step in done.steps] == ["queued", "scheduled", "sending", "sent", "delivered", "read"]
    assert not done.can_cancel
    assert done.eta is None


async def test_an_open_page_of_sessions_offers_those_that_were_added_since(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    await builder.session("w1", "One", pool)
    await builder.session("w2", "Two", pool)
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(None, "fleet", "en")
    shown = await fleet.show(renderer, view, {})
    assert "data-refresh" not in (await fleet.parts(renderer, view, shown.watch))["newer"]
    await redis.delete(keys.session("w2"))
    await redis.srem(keys.SESSIONS_ALL, "w2")
    await builder.session("w3", "Three", pool)
    renderer.reader.mark_all_changed()
    view = await renderer.view_as(None, "fleet", "en")
    newer = (await fleet.parts(renderer, view, shown.watch))["newer"]
    assert view.n("newer", 1) in newer


async def test_new_messages_of_all_kinds_are_not_said_to_be_new_on_a_narrowed_list(
    redis: Redis, scripts: Scripts
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "One", "972500000001", [await builder.proxy(1)])
    await builder.message(1, "w1", "972500000001", "972520000001", "Hello", until="failed")
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(None, "messages", "en")
    offered = {}
    for status in ("", "failed", "unknown"):
        shown = await messages.show(renderer, view, {"status": status})
        await redis.zadd(keys.ALL_MESSAGES, {f"m_{status}": await scripts.now_ms() + 1000})
        offered[status] = "data-refresh" in (await messages.parts(renderer, view, shown.watch))["newer"]
    assert offered == {"": True, "failed": False, "unknown": False}


async def test_messages_are_found_by_recipient_reference_id_session_and_status(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    renderer = Renderer(make_context(settings(), redis), SnapshotReader(make_context(settings(), redis)))

    view = await renderer.view_as(None, "messages", "en")

    async def ids(**query: str) -> list[str]:
        return [each.id[-2:] for each in (await messages.search(renderer, view, query))[0]]

    assert await ids(q="+972 52-440-8814") == ["04"]
    assert await ids(q="order-20712") == ["02"]
    assert await ids(q=f"m_{3:018x}") == ["03"]
    assert await ids(status="failed") == ["03"]
    assert len(await ids(session="worker_4", status="queued")) == 8
    assert await ids(session="worker_5") == []


async def test_the_log_tells_two_of_one_name_apart_without_a_whole_phone(redis: Redis, scripts: Scripts) -> None:
    builder = FleetBuilder(scripts)
    pool = [await builder.proxy(1)]
    for number in (1, 2):
        await builder.connected(f"w{number}", "Sales", f"97250000000{number}", pool)
    context = make_context(settings(), redis)
    view = await Renderer(context, SnapshotReader(context)).view_as(None, "live-log", "en")
    tags = [
        live_log.line_of(view, records.Entry("1-1", {"type": "session.connected", "session": f"w{at}"})).tag
        for at in (1, 2)
    ]
    assert tags == ["••••0001", "••••0002"]


async def test_the_log_tells_no_text_no_code_and_no_whole_phone(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    context = make_context(settings(), redis)
    view = await Renderer(context, SnapshotReader(context)).view_as(None, "live-log", "en")
    fields = {
        "type": "message.received",
        "session": "worker_1",
        "at": "1",
        "phone": "972501234567",
        "text": "secret words",
        "qr": "2@code",
        "kind": "text",
    }
    line = live_log.line_of(view, records.Entry("1-1", fields))
    everything = f"{line.text} {line.details}"
    assert "972501234567" not in everything
    assert "4567" in everything
    assert "secret words" not in everything
    assert "2@code" not in everything


@pytest.mark.parametrize(
    ("name", "form", "method", "path", "body"),
    [
        ("restart", {"id": "w/../1"}, "POST", "/api/sessions/w%2F..%2F1/restart", None),
        ("delete", {"id": "w1", "queued": "reroute"}, "DELETE", "/api/sessions/w1?queued=reroute", None),
        ("delete", {"id": "w1", "queued": "evil"}, "DELETE", "/api/sessions/w1?queued=cancel", None),
        ("hold", {"scope": "session", "id": "w1", "why": "x"}, "POST", "/api/anti-ban/holds", {"sessionId": "w1", "why": "x"}),
        ("hold", {"scope": "all"}, "POST", "/api/anti-ban/holds", {"all": True}),
        ("resume", {"scope": "session", "id": "w1"}, "DELETE", "/api/anti-ban/holds/session:w1", None),
        ("limits", {"id": "w1", "per_day": "50", "acknowledge": "1"}, "PUT", "/api/anti-ban/sessions/w1/limits", {"perDay": 50, "acknowledgeRisk": True}),
        ("tag-limits", {"tag": "vip", "per_day": "50", "per_minute": "", "pause_min": "5", "pause_max": "9", "opens": ""}, "PUT", "/api/anti-ban/tag-limits", {"tag": "vip", "perDay": 50, "pauseMinMs": 5000, "pauseMaxMs": 9000}),
        ("tag-limits-reset", {"tag": "a b/ש"}, "DELETE", "/api/anti-ban/tag-limits?tag=a%20b%2F%D7%A9", None),
        ("send", {"to": "97250", "message": "hi", "session": ""}, "POST", "/api/v1/send", {"to": "97250", "message": "hi"}),
    ],
)  # fmt: skip
def test_a_button_is_one_call_of_the_api(name: str, form: dict[str, str], method: str, path: str, body: object) -> None:
    assert actions.find(name).call(form) == (method, path, body)


def test_several_picked_sessions_are_one_call_each() -> None:
    data = FormData([("id", "w1"), ("id", "w2"), ("scope", "session")])
    assert [form["id"] for form in actions.forms(actions.find("hold"), data)] == ["w1", "w2"]


def test_the_answer_for_several_names_those_that_were_refused() -> None:
    asked = [{"id": "w1"}, {"id": "w2"}]
    refused = ApiResponse(404, {"error": {"code": "NO_SUCH_SESSION", "message": "There is no session w2."}})
    outcome = actions.outcome_of("restart", actions.find("restart"), asked, [ApiResponse(200, {}), refused], ENGLISH)
    assert outcome.state == "error"
    assert "1" in outcome.text
    assert "There is no session w2." in outcome.lines[0]
    hebrew = actions.outcome_of("restart", actions.find("restart"), asked, [ApiResponse(200, {}), refused], HEBREW)
    assert "החיבור כבר לא קיים" in hebrew.lines[0]


def test_a_refused_form_names_the_fields_that_are_wrong() -> None:
    errors = [
        {"path": "to", "code": "missing", "message": "Field required"},
        {"path": "message", "code": "x", "message": "x"},
    ]
    answer = ApiResponse(422, {"error": {"code": "VALIDATION_FAILED", "message": "x", "errors": errors}})
    assert actions.error_message(answer, HEBREW) == "חסר או לא תקין: מספר הנמען, הטקסט."
    assert actions.error_message(answer, ENGLISH).startswith(
        "Missing or invalid: the recipient’s number, the text. Field"
    )


@pytest.mark.parametrize("locale", [ENGLISH, HEBREW])
def test_an_address_refused_for_a_webhook_is_not_called_a_file(locale: Locale) -> None:
    message = "Only addresses that begin with https:// are read, such as https://example.com/file.pdf."
    answer = ApiResponse(422, {"error": {"code": "URL_REFUSED", "message": message}})
    said = actions.outcome_of("webhook-add", actions.find("webhook-add"), [{"url": "http://a"}], [answer], locale).text
    assert "file.pdf" not in said
    assert "https://crm.example.com/hooks/whatsapp" in said


def test_names_are_sorted_as_people_count() -> None:
    assert sorted(["worker_10", "worker_9", "Worker_1"], key=natural) == ["Worker_1", "worker_9", "worker_10"]


@pytest.mark.parametrize(("role", "shown"), [(Role.ADMINISTRATOR, True), (Role.VIEWER, False)])
async def test_a_code_is_shown_to_administrators_only(redis: Redis, scripts: Scripts, role: Role, shown: bool) -> None:
    await fill(scripts)
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(Person(role, "Dana", "token", "hash"), "scan", "en")
    first = await scan.show(renderer, view, {"id": "worker_18"})
    later = await scan.parts(renderer, view, {"id": "worker_18"})
    assert ('class="code"' in first.parts["qr-card"]) is shown
    assert ('class="code"' in later["qr-card"]) is shown


@pytest.mark.parametrize("name", ["worker_4", "worker_17"])
async def test_a_session_that_is_linked_shows_the_way_on_and_no_tools_for_linking(
    redis: Redis, scripts: Scripts, name: str
) -> None:
    await fill(scripts)
    context = make_context(settings(), redis)
    context.simulator = {"control": "http://127.0.0.1:9"}
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(Person(Role.ADMINISTRATOR, "Dana", "token", "hash"), "scan", "en")
    tools = ("/do/pairing", "/do/simulate-scan", 'class="steps"')
    before = "".join((await scan.parts(renderer, view, {"id": "worker_18"})).values())
    after = "".join((await scan.parts(renderer, view, {"id": name})).values())
    assert [tool in before for tool in tools] == [True, True, True]
    assert [tool in after for tool in tools] == [False, False, False]
    assert f'href="/sessions/{name}"' in after
    assert 'class="btn primary" href="/scan?id=worker_18"' in after


def test_of_a_pasted_list_the_refused_lines_stay_and_are_numbered_anew() -> None:
    form = {
        "text": "socks5h://good.example.com:1\r\n\r\nfirst wrong\r\nsocks5h://known.example.com:1\r\nsecond wrong\r\n"
    }
    errors = [{"line": at, "code": "BAD_PROXY_URL", "message": "No."} for at in (3, 5)]
    answer = ApiResponse(200, {"added": ["p_1"], "known": ["p_2"], "errors": errors})
    outcome = actions.outcome_of("proxy-import", actions.find("proxy-import"), [form], [answer], ENGLISH)
    assert outcome.left == "first wrong\nsecond wrong"
    assert [line.partition(":")[0] for line in outcome.lines] == ["Line 1", "Line 2"]
    good = actions.outcome_of(
        "proxy-import", actions.find("proxy-import"), [form], [ApiResponse(200, {"added": ["p_1"]})], ENGLISH
    )
    assert good.left == ""
    whole = ApiResponse(422, {"error": {"code": "TOO_MANY_LINES", "message": "Too many."}})
    assert actions.outcome_of("proxy-import", actions.find("proxy-import"), [form], [whole], ENGLISH).left is None


async def test_hours_without_an_end_are_all_day(redis: Redis) -> None:
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(None, "anti-ban", "en")
    pace = PRESETS[Preset.STANDARD][Trust.HOT]
    assert renderer.macros.hours(view, replace(pace, opens=time(8), closes=time(22))).striptags() == "08:00–22:00"
    assert renderer.macros.hours(view, replace(pace, opens=time(0), closes=time(0))) == "all day"


@pytest.mark.parametrize(
    ("query", "said"),
    [({}, "message.none_yet"), ({"status": "failed"}, "message.nothing"), ({"q": "x"}, "message.nothing")],
)
async def test_a_page_without_messages_says_whether_a_filter_hides_them(
    redis: Redis, query: dict[str, str], said: str
) -> None:
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(None, "messages", "en")
    html = bytes(renderer.page(view, await messages.show(renderer, view, query)).body).decode()
    told = {name for name in ("message.none_yet", "message.nothing") if view.t(name) in html}
    assert told == {said}


@pytest.mark.parametrize(("bad", "said"), [(0, "No proxy yet"), (1, "No working proxy")])
async def test_where_no_proxy_works_nothing_says_that_all_slots_are_taken(
    redis: Redis, scripts: Scripts, bad: int, said: str
) -> None:
    for number in range(bad):
        await redis.hset(keys.proxy(await FleetBuilder(scripts).proxy(number)), "status", "BAD")
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(None, "proxies", "en")
    assert said in renderer.macros.slots_headline(view)
    assert "in use" not in view.reason("WAITING_FOR_PROXY")
    assert "none works" in view.reason("WAITING_FOR_PROXY")


@pytest.mark.parametrize(
    ("status", "reason"), [("connected", ""), ("failed", "BANNED"), ("pending", "WAITING_FOR_PROXY")]
)
async def test_only_of_a_session_that_can_send_its_page_says_what_fits_today(
    redis: Redis, scripts: Scripts, status: str, reason: str
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("worker_1", "Sales", "972501000001", [await builder.proxy(1)])
    await builder.message(1, "worker_1", "972501000001", "972521000001", "Hello")
    if reason:
        await builder.put("worker_1", status, reason)
    context = make_context(settings(hot_hours="00:00-00:00"), redis)  # open whenever the test runs
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(None, "session", "en")
    shown = await session.parts(renderer, view, {"id": "worker_1"})
    assert ("1 in the queue fits today" in shown["session-today"]) is (status == "connected")
    row = view.snapshot.rows["worker_1"]
    assert row.fits_today == (1 if status == "connected" else 0), "the bar says the same"
    assert "Starting" not in shown["session-head"]


async def test_the_first_call_that_a_page_shows_is_one_that_the_api_takes(redis: Redis) -> None:
    renderer = Renderer(make_context(settings(3001), redis), SnapshotReader(make_context(settings(3001), redis)))
    shown = renderer.macros.first_steps(await renderer.view_as(None, "fleet", "en"), 20)
    body = Markup(shown).unescape().partition("-d '")[2].partition("'")[0]
    assert SendBody.model_validate_json(body).to == "972501234567"


def test_a_name_that_is_spelled_like_a_mark_stays_a_name_in_the_snippet() -> None:
    ceremony = PasskeyCeremony("required", 1, 1, options=json.dumps({"challenge": "AAAA"}))
    name = "__RP_ID__ __ORIGIN__ </script>"
    assert json.dumps(name).replace("<", "\\u003c") in passkey.snippet(ceremony, name)
