"""What people change about sessions, proxies and webhooks, in a real browser in both languages."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, api, serve_fleet
from tests.dashboard.serving import PASSWORD, VIEWER_PASSWORD
from tests.dashboard.test_buttons import said, toast
from tests.orchestrator.fakes import FakeCheck, FakeRunner
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.api.proxy_changes import ProxyChangeRoutes
from wa_orchestrator.orchestrator.api.sessions.choices import SessionChangeRoutes
from wa_orchestrator.store import keys, records
from wa_orchestrator.texts.catalogue import languages

pytestmark = pytest.mark.browser
SESSION = "worker_4"
Enter = Callable[..., Page]


def routers(context: Context) -> list[Any]:
    health = service.assemble(context, FakeRunner(), FakeCheck()).proxy_health
    return [*api(context), SessionChangeRoutes(context, health), ProxyChangeRoutes(context, health)]


@pytest.fixture
def served(redis_url: str, chromium: Browser) -> Iterator[ServedFleet]:
    assert chromium.is_connected()
    with serve_fleet(redis_url, routers, allow_private_urls=True) as made:
        yield made


@pytest.fixture
def enter(served: ServedFleet, chromium: Browser) -> Iterator[Enter]:
    """Comes in as somebody who reads a language."""
    contexts: list[BrowserContext] = []

    def entered(language: str, password: str = PASSWORD) -> Page:
        contexts.append(visit(chromium, served.address, language=language))
        return log_in(contexts[-1], served.address, password)

    yield entered
    for context in contexts:
        context.close()


@pytest.mark.parametrize("language", languages())
def test_a_session_gets_tags_and_notes_and_is_found_by_its_tag(
    served: ServedFleet, enter: Enter, language: str
) -> None:
    page = enter(language)
    page.goto(f"{served.address}/sessions/{SESSION}")
    page.locator("#session-head details.menu summary").click()
    page.locator("[data-open=session-change]").click()
    dialog = page.locator("#session-change")
    expect(dialog.locator("[name=label]")).to_have_value("Sales North")
    dialog.locator("[name=tags]").fill("haifa, <b>vip</b>")
    dialog.locator("[name=notes]").fill('call "Dana" first\'s')
    dialog.locator("[name=timezone]").fill("Mars")
    dialog.locator(".primary").click()
    expect(dialog.locator("[data-error]")).to_be_visible()
    dialog.locator("[name=timezone]").fill("")
    dialog.locator(".primary").click()
    expect(toast(page, language, "done.session-change")).to_be_visible()
    expect(page.locator("#session-head .tag")).to_have_text(["haifa", "<b>vip</b>"])
    expect(page.locator("#session-head")).to_contain_text('call "Dana" first\'s')
    page.locator("#session-head .tag").first.click()
    expect(page.locator("table.fleet tbody tr")).to_have_count(1)
    expect(page.locator("#chips .tag")).to_contain_text("haifa")
    page.locator("#chips .tag").click()
    expect(page.locator("table.fleet tbody tr").nth(1)).to_be_visible()
    stored = served.do(lambda on: records.session(on.scripts, SESSION))
    assert (stored.tags, stored.notes, stored.label) == (("haifa", "<b>vip</b>"), 'call "Dana" first\'s', "Sales North")


@pytest.mark.parametrize("language", languages())
def test_a_session_is_moved_to_another_proxy(served: ServedFleet, enter: Enter, language: str) -> None:
    page = enter(language)
    before = served.do(lambda on: records.session(on.scripts, SESSION))
    page.goto(f"{served.address}/sessions/{SESSION}")
    page.locator("#session-head details.menu summary").click()
    page.locator("[data-open=session-change]").click()
    choices = page.locator("#session-change [name=proxy] option")
    chosen = choices.nth(1).get_attribute("value")
    page.locator("#session-change [name=proxy]").select_option(chosen)
    page.locator("#session-change .primary").click()
    expect(toast(page, language, "done.session-change")).to_be_visible()
    after = served.do(lambda on: records.session(on.scripts, SESSION))
    assert (after.proxy, after.leaving) == (chosen, before.proxy)


@pytest.mark.parametrize("language", languages())
def test_a_proxy_gets_a_name_a_country_and_a_day(served: ServedFleet, enter: Enter, language: str) -> None:
    page = enter(language)
    page.goto(f"{served.address}/proxies")
    row = page.locator(".proxy").last
    row.locator("details.menu summary").click()
    row.locator("[data-open=proxy-change]").click()
    dialog = page.locator("#proxy-change")
    dialog.locator("[name=name]").fill("Haifa 1")
    dialog.locator("[name=country]").fill("il")
    dialog.locator("[name=expires_on]").fill("2020-01-31")
    dialog.locator(".primary").click()
    expect(toast(page, language, "done.proxy-change")).to_be_visible()
    expect(page.locator(".proxy", has_text="Haifa 1")).to_contain_text("IL")
    expect(page.locator(".proxy", has_text="Haifa 1").locator(".pill[data-s=bad]")).to_have_text(
        said(language, "proxy.expired")
    )


def test_a_webhook_is_changed_on_the_settings_page(served: ServedFleet, enter: Enter) -> None:
    page = enter("en")
    page.goto(f"{served.address}/settings")
    page.locator("form[action='/do/webhook-add'] [name=url]").fill("http://127.0.0.1:9/hook")
    page.locator("form[action='/do/webhook-add'] button").click()
    page.locator("#secret footer .primary").click()
    mine = page.locator("#webhooks > li", has_text="127.0.0.1:9")
    mine.locator("details.menu summary").click()
    mine.locator("[data-open=webhook-change]").click()
    dialog = page.locator("#webhook-change")
    expect(dialog.locator("[name=url]")).to_have_value("http://127.0.0.1:9/hook")
    dialog.locator("[name=types]").fill("message.received, message.failed")
    dialog.locator("[name=labels]").fill("haifa")
    dialog.locator(".primary").click()
    expect(toast(page, "en", "done.webhook-change")).to_be_visible()
    expect(page.locator("#webhooks")).to_contain_text("message.received, message.failed")
    assert "haifa" in str(served.do(lambda on: on.redis.hvals(keys.WEBHOOKS)))


def test_a_viewer_changes_nothing(served: ServedFleet, enter: Enter) -> None:
    page = enter("en", VIEWER_PASSWORD)
    page.goto(f"{served.address}/sessions/{SESSION}")
    page.locator("#session-head details.menu summary").click()
    expect(page.locator("[data-open=session-change]")).to_be_disabled()
