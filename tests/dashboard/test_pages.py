"""Every page in a real browser with a sample fleet: accessible, not too wide, live, and safe against injected scripts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.dashboard import sample_fleet
from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, serve_fleet
from tests.dashboard.serving import PASSWORD
from wa_orchestrator.store import contacts, keys, webhooks

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = (
    "/", "/?state=failed", "/scan?id=worker_18", "/sessions/worker_4", "/sessions/worker_16", "/messages",
    "/proxies", "/anti-ban", "/live-log", "/settings",
)  # fmt: skip
#: What people have typed into names and messages to make browsers run it.
PLANTED = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "' autofocus onfocus=window.hacked=1 x='",
    "</textarea><script>window.hacked=1</script>",
    "javascript:window.hacked=1//",
    "<a href=javascript:window.hacked=1>x</a>",
    "{{constructor.constructor('window.hacked=1')()}}",
    "</title><script>window.hacked=1</script>",
    "\u202e<iframe srcdoc='<script>parent.hacked=1</script>'>",
)


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


def _serious(page: Page) -> list[str]:
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
        if found := _serious(page):
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


@pytest.mark.parametrize("language", ["en", "he"])
def test_no_page_scrolls_sideways_at_any_width(served: ServedFleet, chromium: Browser, language: str) -> None:
    context = visit(chromium, served.address, language=language)
    page = log_in(context, served.address, PASSWORD)
    wide = {}
    for path in PAGES:
        page.goto(served.address + path)
        for width in (360, 800, 1100, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if over > 0:
                wide[f"{path} at {width}"] = over
    assert wide == {}
    context.close()


def test_planted_scripts_are_shown_as_text_and_never_run(served: ServedFleet, person: BrowserContext) -> None:
    async def plant(on: sample_fleet.FleetBuilder) -> None:
        for number, text in enumerate(PLANTED):
            await on.redis.hset(keys.session(f"worker_{number + 1}"), mapping={"label": text, "device_name": text})
            await on.message(
                900 + number, "worker_4", f"97250{1234567 + 4 * 991:07d}", "972521111111", text, reference=text
            )
            await contacts.opt_out(on.scripts, f"97252333{number:04d}", word=text, via="reply")
            await on.redis.xadd(keys.EVENTS, {"type": text, "session": f"worker_{number + 1}", "at": "1", "note": text})
            await on.redis.xadd(keys.AUDIT, {"at": "1", "by": text, "action": text, "target": text, "details": text})
            await on.redis.hset(
                keys.HOLDS, f"session:worker_{number + 1}", json.dumps({"until_ms": 9e15, "why": text, "by": text})
            )
            await webhooks.put(on.scripts, webhooks.Webhook(f"w{number}", text, (text,), "whsec_x", "0-0", number))
        proxy = next(iter(await on.redis.smembers(keys.PROXIES_ALL)))
        await on.redis.hset(
            keys.proxy(proxy), mapping={"status": "BAD", "last_error": PLANTED[0], "masked": PLANTED[1]}
        )

    served.do(plant)
    page = log_in(person, served.address, PASSWORD, name=PLANTED[1])
    refused: list[str] = []
    page.on("console", lambda line: refused.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("dialog", lambda dialog: refused.append(dialog.message))
    paths = [
        *PAGES,
        *(f"/messages?id=m_{900 + at:018x}" for at in range(len(PLANTED))),
        "/messages?q=%3Cscript%3E",
        "/?q=%22%3E%3Cimg%20src=x%20onerror=window.hacked=1%3E",
    ]
    for path in paths:
        page.goto(served.address + path)
        page.wait_for_selector("h1")
        page.wait_for_selector("body[data-live]")
        assert page.evaluate("window.hacked") is None, path
    page.goto(served.address + "/sessions/worker_1")
    expect(page.locator("h1")).to_have_text(PLANTED[0])
    page.goto(f"{served.address}/messages?id=m_{900:018x}")
    expect(page.locator(".bubble")).to_have_text(PLANTED[0])
    page.goto(served.address + "/live-log")

    async def happen(on: sample_fleet.FleetBuilder) -> None:
        for text in PLANTED:
            await on.redis.xadd(keys.EVENTS, {"type": f"late.{text}", "session": "worker_1", "at": "1", "note": text})

    served.do(happen)
    expect(page.locator("#log summary code", has_text="late.").first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert refused == []


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
    expect(page.locator(".fleet tbody tr")).to_have_count(3)
    assert page.url.endswith("q=clinic")
    page.reload()
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
    page.goto(served.address + "/scan?id=worker_18")
    before = page.locator("svg.code").inner_html()
    served.do(lambda on: on.qr("worker_18", text="2@another-code-altogether", life_ms=20_000, age_ms=0))
    expect(page.locator("[data-left]")).to_have_text(re.compile(r"(20|19|18) s"))
    assert page.locator("svg.code").inner_html() != before


def test_a_page_says_when_the_server_is_away_and_goes_on_by_itself(served: ServedFleet, person: BrowserContext) -> None:
    page = log_in(person, served.address, PASSWORD)
    page.wait_for_selector("body[data-live]")
    page.clock.install()
    person.set_offline(True)
    page.clock.fast_forward(40_000)
    expect(page.locator("#live")).to_have_class(re.compile("stale"))
    person.set_offline(False)
