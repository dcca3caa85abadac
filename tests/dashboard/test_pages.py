"""Every page in a real browser with a sample fleet: accessible, not too wide, and live."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.dashboard import sample_fleet
from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, serve_fleet
from tests.dashboard.serving import PASSWORD
from wa_orchestrator.domain.access.permissions import Scope
from wa_orchestrator.store import keys
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.texts.catalogue import texts

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = (
    "/", "/?state=failed", "/scan?id=worker_18", "/sessions/worker_4", "/sessions/worker_16", "/messages", "/inbox",
    "/contacts", "/proxies", "/anti-ban", "/live-log", "/backups", "/jobs", "/nodes", "/settings", "/account",
    "/campaigns", "/people", "/audit", "/radar", "/nope",
    "/import",
)  # fmt: skip
#: What is shown beyond the edge of the window, or is wider than the box that holds it.
OVER_THE_EDGE = """
    [...document.querySelectorAll('main *')].filter(each => {
      const box = each.getBoundingClientRect()
      const holder = each.closest('.card')?.getBoundingClientRect() ?? { left: 0, right: innerWidth }
      const clipped = each.closest('.clip, .sr, pre, textarea')
      return box.width && !clipped && (box.right > holder.right + 1 || box.left < holder.left - 1)
    }).map(each => `${each.tagName} ${each.className} ${each.textContent.slice(0, 40)}`)
"""


@pytest.fixture
def served(redis_url: str, chromium: Browser) -> Iterator[ServedFleet]:
    """A new sample fleet."""
    assert chromium.is_connected()
    with serve_fleet(redis_url) as made:
        yield made


@pytest.fixture
def person(served: ServedFleet, chromium: Browser) -> Iterator[BrowserContext]:
    """An administrator's browser."""
    context = visit(chromium, served.address)
    yield context
    context.close()


def serious(page: Page) -> list[str]:
    """What axe finds that keeps people out. The script is put in by the test tool, past the page's own policy."""
    assert AXE.exists(), "axe-core is missing: make web"
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize(("language", "theme", "width"), [("en", "light", 1280), ("he", "dark", 390)])
def test_no_page_keeps_anybody_out(
    served: ServedFleet, chromium: Browser, language: str, theme: str, width: int
) -> None:
    context = visit(chromium, served.address, language=language, theme=theme, width=width)
    problems = {}

    def look(page: Page, path: str, name: str) -> None:
        page.goto(served.address + path)
        page.wait_for_selector("h1", state="visible")
        if found := serious(page):
            problems[name] = found

    look(context.new_page(), "/login", "login")
    page = log_in(context, served.address, PASSWORD)
    for path in PAGES:
        look(page, path, path)

    async def empty(on: sample_fleet.FleetBuilder) -> None:
        await on.redis.delete(keys.SESSIONS_ALL, keys.SESSIONS_ACTIVE, keys.PROXIES_ALL, keys.PROXIES_AVAILABLE)

    served.do(empty)
    look(page, "/", "first run")
    assert problems == {}
    context.close()


#: Fields whose example has no Hebrew letter, and where it does not begin at the left.
_ADDRESSES_AT_THE_RIGHT = """
    [...document.querySelectorAll('input[placeholder], textarea[placeholder], input.ltr, textarea.ltr')].filter(each => {
      const { direction, textAlign } = getComputedStyle(each)
      return !/[\u0590-\u05ff]/.test(each.placeholder) && (direction !== 'ltr' || !['start', 'left'].includes(textAlign))
    }).map(each => each.name)
"""


def test_addresses_and_numbers_begin_at_the_left_in_hebrew_too(served: ServedFleet, chromium: Browser) -> None:
    page = log_in(visit(chromium, served.address, language="he"), served.address, PASSWORD)
    for path in PAGES:
        page.goto(served.address + path)
        assert page.evaluate(_ADDRESSES_AT_THE_RIGHT) == [], path
    page.context.close()


@pytest.mark.parametrize("language", ["en", "he"])
def test_no_page_scrolls_sideways_at_any_width(served: ServedFleet, chromium: Browser, language: str) -> None:
    context = visit(chromium, served.address, language=language)
    page = log_in(context, served.address, PASSWORD)
    wide = {}
    for path in PAGES:
        page.goto(served.address + path)
        for width in (320, 360, 800, 1100, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if over > 0:
                wide[f"{path} at {width}"] = over
    assert wide == {}
    context.close()


def test_a_row_changes_by_itself_and_nothing_is_taken_from_ones_hands(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.wait_for_selector("body[data-live]")
    page.locator("#row-worker_2 .pick").check()
    page.fill("#q", "worker")
    page.locator("#row-worker_1 .name").focus()
    served.do(lambda on: on.put("worker_1", "failed", "BANNED"))
    expect(page.locator("#st-worker_1 .pill")).to_have_attribute("data-s", "failed")
    expect(page.locator("#headline")).to_contain_text("14")
    assert page.locator("#row-worker_2 .pick").is_checked()
    assert page.input_value("#q") == "worker"
    assert page.evaluate("document.activeElement.className") == "name"


def test_a_search_narrows_the_list_while_one_types(served: ServedFleet, person: BrowserContext) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.keyboard.press("/")
    page.keyboard.type("clinic")
    expect(page).to_have_url(re.compile("q=clinic$"))
    expect(page.locator(".fleet tbody tr")).to_have_count(3)
    page.reload()
    expect(page.locator(".fleet tbody tr")).to_have_count(3)


def test_a_button_that_is_pressed_while_the_list_is_fetched_anew_is_clicked_all_the_same(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD)
    asked: list[Route] = []

    def hold(route: Route) -> None:
        asked.append(route)

    page.route("**/?q=clinic", hold)
    with page.expect_request("**/?q=clinic"):
        page.fill("#q", "clinic")
    page.locator("#row-worker_2 [data-row-menu]").hover()
    page.mouse.down()
    with page.expect_response("**/?q=clinic") as answer:
        asked[0].continue_()
    answer.value.finished()
    page.evaluate("new Promise(done => setTimeout(done))")  # the page has it, too
    page.mouse.up()
    expect(page.locator("#row-menu")).to_be_visible()
    expect(page.locator(".fleet tbody tr")).to_have_count(3)


def test_picked_sessions_are_paused_after_one_question_and_the_answer_counts_them(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.keyboard.press("j")
    for name in ("worker_1", "worker_2", "worker_3"):
        page.locator(f"#row-{name} .name").focus()
        page.keyboard.press("x")
    expect(page.locator("[data-picked]")).to_have_text("3")
    page.locator(".bulk form[action='/do/hold'] button").click()
    expect(page.locator("#confirm")).to_be_visible()
    assert page.evaluate("document.activeElement.value") == "", "the harmless button has the focus"
    page.locator("#confirm [data-yes]").click()
    expect(page.locator(".toast")).to_contain_text("3")
    expect(page.locator("#st-worker_1 .why")).to_be_visible()
    assert {f"session:worker_{n}" for n in (1, 2, 3)} <= set(served.do(lambda on: on.redis.hkeys(keys.HOLDS)))


def test_a_new_code_replaces_the_old_one_by_itself(served: ServedFleet, person: BrowserContext) -> None:
    page = log_in(person, served.address, PASSWORD)
    served.do(lambda on: on.qr("worker_18", life_ms=300_000, age_ms=0))
    page.goto(served.address + "/scan?id=worker_18")
    before = page.locator("svg.code").inner_html()
    served.do(lambda on: on.qr("worker_18", text="2@another-code-altogether", life_ms=900_000, age_ms=0))
    expect(page.locator("[data-left]")).to_have_text(re.compile(r"(900|8\d\d) s"))
    assert page.locator("svg.code").inner_html() != before


def test_a_page_says_when_the_server_is_away_and_goes_on_by_itself(served: ServedFleet, person: BrowserContext) -> None:
    page = log_in(person, served.address, PASSWORD)
    _lose_the_server(page)
    expect(page.locator("#live")).to_have_class(re.compile("stale"))
    page.evaluate("window.isCut = false")
    person.set_offline(False)
    expect(page.locator("#live")).not_to_have_class(re.compile("stale"))


def _lose_the_server(page: Page) -> None:
    """Cut a page off, two minutes ago. A browser that is offline still hears the streams that it has open."""
    page.add_init_script("""
        EventSource.prototype.addEventListener = function (kind, act) {
          EventTarget.prototype.addEventListener.call(this, kind, event => window.isCut || act(event))
        }
    """)
    page.reload()
    page.wait_for_selector("body[data-live]")
    page.clock.install()  # from here on `performance.now()` begins at 0 again
    page.evaluate("window.isCut = true")
    page.context.set_offline(True)
    page.clock.fast_forward(120_000)


def test_a_session_that_is_ready_to_scan_shows_its_button_without_a_reload(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.wait_for_selector("body[data-live]")
    row = page.locator("#row-worker_1")
    expect(row.get_by_role("link", name="Scan")).to_have_count(0)
    row.locator("[data-row-menu]").focus()
    served.do(lambda on: on.qr("worker_1"))
    expect(row.get_by_role("link", name="Scan")).to_be_focused()
    served.do(lambda on: on.put("worker_1", "stopped", "STOPPED_BY_OPERATOR"))
    expect(row.locator("[data-row-menu]")).to_have_attribute("data-rests", "1")


def test_a_linked_phone_and_its_proxy_appear_in_their_row_without_a_reload(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.wait_for_selector("body[data-live]")

    async def link(on: sample_fleet.FleetBuilder) -> None:
        fields = {"phone": "972541112233", "proxy": "feedfacefeed"}
        await on.redis.hset(keys.session("worker_18"), mapping=fields)
        await on.put("worker_18", "connected", "")

    served.do(link)
    expect(page.locator("#row-worker_18 .name-cell")).to_contain_text("+972 54-111-2233")
    expect(page.locator("#pr-worker_18")).to_have_text("feedfa")


def test_a_session_whose_code_expired_is_on_the_scan_page_and_can_get_a_new_one(
    served: ServedFleet, person: BrowserContext
) -> None:
    served.do(lambda on: on.put("worker_1", "failed", "QR_EXPIRED"))
    page = log_in(person, served.address, PASSWORD)
    page.goto(served.address + "/scan")
    page.locator("#waiting a[href='/scan?id=worker_1']").click()
    expect(page.locator("#qr-card form[action='/do/start'] button")).to_be_enabled()
    expect(page.locator("#waiting a[href='/scan?id=worker_16']")).to_have_count(0)  # banned: no code helps


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_page_has_one_clock_and_names_its_zone_wherever_the_browser_is(
    redis_url: str, chromium: Browser, zone: str
) -> None:
    with serve_fleet(redis_url, timezone="Asia/Jerusalem") as served:
        person = visit(chromium, served.address, zone=zone)
        page = log_in(person, served.address, PASSWORD)
        page.wait_for_selector("body[data-live]")
        expect(page.locator("#live")).to_contain_text("Asia/Jerusalem")
        _lose_the_server(page)
        expect(page.locator("#live.away")).to_contain_text("The server does not respond")
        told = re.search(r"(\d\d):(\d\d):\d\d", page.locator("#live").inner_text())
        assert told
        there = datetime.now(ZoneInfo("Asia/Jerusalem"))
        apart = abs(int(told[1]) * 60 + int(told[2]) - there.hour * 60 - there.minute)
        assert min(apart, 24 * 60 - apart) < 10
        person.close()


def test_a_page_that_opens_just_before_the_server_goes_does_not_say_connecting_for_ever(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.route("**/events/ui*", lambda route: route.abort())
    page.goto(served.address + "/anti-ban")
    expect(page.locator("#live.away")).to_contain_text("The server does not respond")


@pytest.mark.parametrize("language", ["en", "he"])
def test_on_a_tablet_the_links_of_the_sidebar_have_names(served: ServedFleet, chromium: Browser, language: str) -> None:
    context = visit(chromium, served.address, language=language, width=900)
    page = log_in(context, served.address, PASSWORD)
    for name in ("fleet", "scan", "messages", "proxies", "anti-ban", "live-log", "settings"):
        link = page.locator("nav.nav").get_by_role("link", name=texts(language)[f"nav.{name}"])
        expect(link.first).to_be_visible()
    context.close()


@pytest.mark.parametrize("language", ["en", "he"])
def test_nothing_on_the_settings_page_hangs_over_the_edge_of_a_phone(
    served: ServedFleet, chromium: Browser, language: str
) -> None:
    async def long_names(on: sample_fleet.FleetBuilder) -> None:
        await api_keys.create(on.scripts, "a-key-with-a-name-that-has-no-spaces-" * 2, frozenset(Scope))
        await on.redis.hset(keys.webhook_state("wh_1"), mapping={"disabled_at": 1, "failing_since": 1})
        target = "dashboard-of-a-branch-with-a-long-name-" * 3
        entry = {"at": 1, "by": f"dashboard:{target}", "action": f"unknown.{target}", "target": target}
        await on.redis.xadd(keys.AUDIT, entry)

    served.do(long_names)
    context = visit(chromium, served.address, language=language, width=390)
    page = log_in(context, served.address, PASSWORD)
    page.goto(served.address + "/settings")
    for fold in page.locator("details.fold").all():
        fold.evaluate("fold => { fold.open = true }")
    assert page.evaluate(OVER_THE_EDGE) == []
    context.close()


def test_a_long_list_of_proxies_has_pages_and_a_search(served: ServedFleet, person: BrowserContext) -> None:
    async def many(on: sample_fleet.FleetBuilder) -> None:
        for number in range(8, 61):
            await on.proxy(number)

    served.do(many)
    page = log_in(person, served.address, PASSWORD)
    page.goto(served.address + "/proxies")
    expect(page.locator(".proxy")).to_have_count(25)
    expect(page.locator(".pager")).to_contain_text("60")
    page.locator(".pager a").click()
    expect(page.locator(".pager")).to_contain_text("26–50")
    page.keyboard.press("/")
    page.keyboard.type("exit-42")
    expect(page.locator(".proxy")).to_have_count(1)
    expect(page.locator(".pager")).to_have_count(0)
    page.fill("#q", "Haifa")
    expect(page.locator(".proxy")).to_have_count(1)
    page.fill("#q", "nothing like it")
    expect(page.locator("#list .quiet-note")).to_be_visible()


def test_a_link_to_a_proxy_opens_the_page_of_the_list_that_has_it(served: ServedFleet, person: BrowserContext) -> None:
    async def many(on: sample_fleet.FleetBuilder) -> None:
        for number in range(8, 61):
            await on.proxy(number)

    served.do(many)
    page = log_in(person, served.address, PASSWORD)
    last = max(served.do(lambda on: on.redis.smembers(keys.PROXIES_ALL)))
    page.goto(f"{served.address}/proxies?id={last}#px-{last}")
    expect(page.locator(f"#px-{last}")).to_be_visible()


def test_the_other_ways_to_link_a_phone_keep_off_the_edge_of_their_card(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.goto(f"{served.address}/scan?id=worker_18")
    page.wait_for_selector("#link-send")
    edges = "[...document.querySelectorAll('#link-pair > *')].map(each => getComputedStyle(each).paddingInlineStart)"
    assert page.evaluate(edges) == ["16px", "16px"]


def test_why_an_event_was_not_delivered_can_be_read_whatever_the_reason(served: ServedFleet, chromium: Browser) -> None:
    async def tried(on: sample_fleet.FleetBuilder) -> None:
        for event in await on.redis.zrange(keys.delivery_log("wh_1"), 0, -1):
            await on.redis.hset(keys.delivery("wh_1", event), mapping={"status": "waiting", "note": "ConnectError"})

    served.do(tried)
    context = visit(chromium, served.address)
    page = log_in(context, served.address, PASSWORD)
    page.goto(served.address + "/settings")
    page.locator("#wd-wh_1").evaluate("fold => { fold.open = true }")
    expect(page.locator("#wd-wh_1 .why").first).to_have_text("unreachable")
    expect(page.locator("#wd-wh_1 .why").first).to_be_visible()
    context.close()


@pytest.mark.parametrize("language", ["en", "he"])
def test_the_filter_in_use_is_on_the_screen_of_a_phone(served: ServedFleet, chromium: Browser, language: str) -> None:
    context = visit(chromium, served.address, language=language, width=390)
    page = log_in(context, served.address, PASSWORD)
    page.goto(served.address + "/messages?status=unknown")
    box = page.locator(".chips > [aria-current]").bounding_box()
    assert box is not None
    assert (box["x"] >= 0, box["x"] + box["width"] <= 390) == (True, True)
    context.close()
