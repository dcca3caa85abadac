"""One person's day in a real browser, over the whole product and the simulated world, in both languages."""

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browsing import log_in, require_chromium, visit
from tests.dashboard.serving import API_KEY, VIEWER_PASSWORD, Thread, settings
from tests.waiting import PATIENCE_S
from wa_orchestrator.dashboard.html.locale import texts
from wa_orchestrator.dashboard.login import create_login_link
from wa_orchestrator.server import bootstrap

pytestmark = pytest.mark.browser


@dataclass
class Product:
    """The product, its simulated world, and the thread in which it runs."""

    address: str
    control: httpx.Client
    server: Any
    thread: Thread

    def new_proxy(self) -> str:
        """One more proxy in the simulated world; its URL."""
        return str(self.control.post("/proxies").json()["url"])

    def link(self) -> str:
        """The link that the server prints at its start."""
        return str(self.thread.do(create_login_link(self.server.context)))


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Everything in one process, as `up --simulate` runs it."""
    with running_product(tmp_path_factory.mktemp("product")) as made:
        yield made


@contextlib.contextmanager
def running_product(home: Path, **changes: Any) -> Iterator[Product]:
    """Run the product with a simulated world, in a thread of its own."""
    require_chromium()
    thread = Thread()
    given: dict[str, Any] = {"provisioning_interval_ms": 100, "monitor_interval_ms": 5000, "check_timeout_ms": 2000}
    chosen = settings(0, data_dir=home, sessions_dir=home / "sessions", **given | changes)
    running = bootstrap.running(chosen, simulate=True)
    server = thread.do(running.__aenter__())
    try:
        with httpx.Client(base_url=server.context.simulator["control"], timeout=PATIENCE_S) as control:
            yield Product(server.url, control, server, thread)
    finally:
        thread.do(server.stop_workers())
        thread.do(running.__aexit__(None, None, None))
        thread.stop()


def said(language: str) -> Callable[[str], re.Pattern[str]]:
    """The texts of a language, as patterns that know nothing of what is put into them."""

    def of(name: str) -> re.Pattern[str]:
        text = re.sub(r"<[^>]+>", "", texts(language)[name])
        return re.compile(".*".join(re.escape(part) for part in re.split(r"\{\w+\}", text)))

    return of


@pytest.mark.parametrize("language", ["en", "he"])
def test_a_day_with_the_dashboard(product: Product, chromium: Browser, language: str) -> None:
    person = visit(chromium, product.address, language=language)
    t = said(language)
    page = _come_in_by_the_link(person, product)
    _add_a_proxy(page, product, t)
    session = _link_a_phone(page, product, t, f"Branch {language}")
    phone = _read_the_phone(product, session)
    _send_and_see_it_read(page, product, t, session)
    _import_proxies(page, product, t)
    _opt_out(page, product, t, session, phone)
    _follow_the_log(page, product, t)
    _lose_a_proxy(page, product, t, session)
    _delete_and_take_back(page, product, t, session)
    _leave(page, product)
    person.close()


def _come_in_by_the_link(person: Any, product: Product) -> Page:
    page: Page = person.new_page()
    page.goto(product.link())
    page.wait_for_url(product.address + "/")
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".banner")).to_be_visible()
    return page


def _add_a_proxy(page: Page, product: Product, t: Callable[[str], re.Pattern[str]]) -> None:
    page.goto(product.address + "/proxies")
    before = page.locator(".proxy").count()
    page.get_by_role("button", name=t("proxies.add")).first.click()
    page.fill("#add-proxy [name=url]", "socks5://user:fake@proxy.example.com:1080")
    page.locator("#add-proxy .primary").click()
    expect(page.locator("#add-proxy [data-error]")).to_be_visible()
    page.fill("#add-proxy [name=url]", product.new_proxy())
    page.locator("#add-proxy .primary").click()
    expect(page.locator(".proxy")).to_have_count(before + 1)
    expect(page.locator(".proxy .slot.free").first).to_be_visible()


def _link_a_phone(page: Page, product: Product, t: Callable[[str], re.Pattern[str]], name: str) -> str:
    page.goto(product.address + "/scan")
    page.keyboard.press("n")
    page.fill("#new-session [name=label]", name)
    page.locator("#new-session .primary").click()
    page.wait_for_url(re.compile(r"/scan\?id="))
    session = page.url.partition("id=")[2]
    expect(page.locator("#qr-card .qr[data-s=qr_ready] svg.code")).to_be_visible()
    page.evaluate("window.stayed = true")
    # Another session may wait to be linked; the page would go on to it while the next step goes elsewhere.
    page.locator("#go-on").uncheck()
    page.get_by_role("button", name=t("scan.simulate")).click()
    expect(page.locator("#qr-card")).to_have_attribute("data-state", "connected")
    expect(page.locator("#said")).to_have_text(t("script.connected_said"))
    assert page.evaluate("window.stayed"), "the page was loaded anew"
    assert page.evaluate("window.beeped") == 1
    expect(page.locator("#link-pair")).to_be_hidden()
    expect(page.locator("#link-how")).to_contain_text(t("scan.open"))
    return session


def _read_the_phone(product: Product, session: str) -> str:
    return str(product.thread.do(product.server.context.redis.hget(f"session:{session}", "phone")))


def _send_and_see_it_read(page: Page, product: Product, t: Callable[[str], re.Pattern[str]], session: str) -> None:
    recipient = f"97258{crc32(session.encode()) % 10_000_000:07d}"
    page.goto(product.address + "/messages")
    page.get_by_role("button", name=t("message.send_one")).click()
    page.fill("#send [name=to]", recipient)
    page.fill("#send [name=message]", "שלום, ההזמנה בדרך")
    page.select_option("#send [name=session]", session)
    page.locator("#send .primary").click()
    page.wait_for_url(re.compile(r"/messages\?id=m_"))
    status = page.locator("#message-details > header .pill")
    expect(page.locator(".bubble")).to_have_text("שלום, ההזמנה בדרך")
    expect(status).to_have_attribute("data-s", re.compile("sent|delivered|read"))
    product.control.post(f"/phones/{recipient}/read", json={}).raise_for_status()
    expect(status).to_have_attribute("data-s", "read")
    expect(page.locator("#message-details .timeline")).to_contain_text(t("step.read"))


def _import_proxies(page: Page, product: Product, t: Callable[[str], re.Pattern[str]]) -> None:
    page.goto(product.address + "/proxies")
    before = page.locator(".proxy").count()
    lines = [product.new_proxy(), "http://proxy.example.com:8080", "socks5h://user:fake@:1"]
    page.fill("#paste-text", "\n".join(lines))
    page.get_by_role("button", name=t("proxies.import")).click()
    told = page.locator("[data-lines] p")
    expect(told).to_have_count(2)
    expect(page.locator("#paste-text")).to_have_value("\n".join(lines[1:]))
    expect(told.nth(0)).to_contain_text("1")
    expect(told.nth(1)).to_contain_text("2")
    expect(page.locator(".proxy")).to_have_count(before + 1)


def _opt_out(page: Page, product: Product, t: Callable[[str], re.Pattern[str]], session: str, phone: str) -> None:
    page.goto(product.address + "/anti-ban")
    count = page.locator("#opt-outs .count")
    before = int(count.inner_text())
    somebody = f"97252{crc32(phone.encode()) % 10_000_000:07d}"
    product.control.post(f"/phones/{somebody}/say", json={"to": phone, "text": "STOP"}).raise_for_status()
    expect(count).to_have_text(str(before + 1))
    page.goto(product.address + "/messages?add=1")
    page.fill("#send [name=to]", somebody)
    page.fill("#send [name=message]", "one more offer")
    page.locator("#send .primary").click()
    expect(page.locator("#send [data-error]")).to_be_visible()
    page.keyboard.press("Escape")


def _follow_the_log(page: Page, product: Product, t: Callable[[str], re.Pattern[str]]) -> None:
    page.goto(product.address + "/live-log?kind=proxy.")
    expect(page.locator("#log details").first).to_be_visible()
    assert {each.split(".")[0] for each in page.locator("#log summary code").all_inner_texts()} == {"proxy"}
    page.keyboard.press("p")
    before = page.locator("#log details").count()
    _have_a_proxy_added(product)
    expect(page.locator("[data-waiting]")).to_have_text(re.compile("[1-9]"))  # another proxy may change meanwhile
    assert page.locator("#log details").count() == before
    page.get_by_role("button", name=t("log.show")).click()
    expect(page.locator("#log details").nth(before)).to_be_attached()
    page.locator("#log summary").first.click()
    expect(page.locator("#log pre").first).to_be_visible()
    page.get_by_role("checkbox", name=t("log.info")).set_checked(False, force=True)
    page.wait_for_url(re.compile("levels="))
    assert page.locator("#log details[data-s=info]").count() == 0


def _have_a_proxy_added(product: Product) -> None:
    key = product.server.context.settings.api_key.get_secret_value()
    answer = httpx.post(
        f"{product.address}/api/v1/proxies",
        json={"url": product.new_proxy()},
        headers={"X-API-Key": key},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 201


def _lose_a_proxy(page: Page, product: Product, t: Callable[[str], re.Pattern[str]], session: str) -> None:
    page.goto(f"{product.address}/sessions/{session}")
    leaves = page.locator("#session-proxy code").first
    before = leaves.inner_text()
    url = product.thread.do(product.server.context.redis.hget(f"proxy:{before}", "url"))
    for kind in ("refuse", "drop"):  # for good: it must not be well again before somebody has looked
        product.control.post("/faults", json={"target": {"proxy": url}, "kind": kind}).raise_for_status()
    expect(leaves).not_to_have_text(before)
    expect(page.locator("#session-head .pill")).to_have_attribute("data-s", "connected")
    expect(page.locator("#session-history")).to_contain_text(before)
    page.goto(product.address + "/proxies")
    expect(page.locator(f"#px-{before} .pill[data-s=bad]")).to_be_visible()


def _delete_and_take_back(page: Page, product: Product, t: Callable[[str], re.Pattern[str]], session: str) -> None:
    page.goto(product.address + "/")
    page.locator(f"#row-{session} [data-row-menu]").click()
    page.locator("#row-menu [data-open=delete]").click()
    page.locator("#delete .danger").click()
    undo = page.get_by_role("button", name=t("do.undo"))
    expect(undo).to_be_visible()
    undo.click()
    expect(page.locator(".toast", has_text=t("done.undelete"))).to_be_visible()
    page.goto(f"{product.address}/sessions/{session}")
    expect(page.locator("#session-head .pill")).to_have_attribute("data-s", "connected")


def _leave(page: Page, product: Product) -> None:
    page.locator(".foot form[action='/logout'] button").click()
    page.wait_for_url(product.address + "/login")
    page.goto(product.address + "/")
    expect(page).to_have_url(product.address + "/login")


@pytest.mark.parametrize("language", ["en", "he"])
def test_a_phone_is_linked_by_a_code_that_reads_left_to_right(
    product: Product, chromium: Browser, language: str
) -> None:
    person = visit(chromium, product.address, language=language)
    page = _come_in_by_the_link(person, product)
    t = said(language)
    phone = f"97253{crc32(language.encode()) % 10_000_000:07d}"
    product.thread.do(_with_a_slot(product))
    page.goto(product.address + "/scan")
    page.keyboard.press("n")
    page.fill("#new-session [name=label]", f"Coded {language}")
    page.locator("#new-session .primary").click()
    page.wait_for_url(re.compile(r"/scan\?id="))
    expect(page.locator("#qr-card svg.code")).to_be_visible()
    page.locator("#go-on").uncheck()
    page.fill("#pair-phone", phone)
    page.get_by_role("button", name=t("scan.get_code")).click()
    code = page.locator("#qr-card .code8")
    expect(code).to_be_visible()
    # In one step: the stream may replace the card at any moment.
    signs = code.evaluate("code => [...code.querySelectorAll('span')].map(sign => sign.getBoundingClientRect().x)")
    assert len(signs) == 8
    assert signs == sorted(set(signs))
    page.get_by_role("button", name=t("scan.simulate")).click()
    expect(page.locator("#qr-card")).to_have_attribute("data-state", "connected")
    expect(page.locator("#qr-card")).to_contain_text(re.compile(phone[-4:]))
    person.close()


async def _with_a_slot(product: Product) -> None:
    """Let there be a free slot, as an operator would."""
    headers = {"X-API-Key": API_KEY}
    async with httpx.AsyncClient(base_url=product.address, headers=headers, timeout=PATIENCE_S) as client:
        (await client.post("/api/v1/proxies", json={"url": product.new_proxy()})).raise_for_status()


def test_a_viewer_sees_the_fleet_and_can_press_nothing(product: Product, chromium: Browser) -> None:
    person = visit(chromium, product.address)
    page = log_in(person, product.address, VIEWER_PASSWORD, "Guest")
    for path in ("/", "/scan", "/messages", "/proxies", "/anti-ban", "/live-log"):
        page.goto(product.address + path)
        expect(page.locator("h1").first).to_be_visible()
        pressable = "form[data-do] button:not(:disabled):not([type=button]):visible, [data-open]:not(:disabled):visible"
        assert page.locator(pressable).count() == 0, path
    assert page.locator("svg.code").count() == 0
    person.close()
