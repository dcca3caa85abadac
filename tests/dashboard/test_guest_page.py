"""The page of a one-time link in a real browser: made on the scan page, opened elsewhere without a login."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, api, serve_fleet
from tests.dashboard.serving import PASSWORD
from tests.dashboard.test_buttons import said
from tests.dashboard.test_pages import serious
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.api.sessions.scan_links import ScanLinkRoutes
from wa_orchestrator.store import keys
from wa_orchestrator.texts.catalogue import languages

pytestmark = pytest.mark.browser


def routers(context: Context) -> list[Any]:
    return [*api(context), ScanLinkRoutes(context)]


@pytest.fixture
def served(redis_url: str, chromium: Browser) -> Iterator[ServedFleet]:
    assert chromium.is_connected()
    with serve_fleet(redis_url, routers, operator_name="Example Agency") as made:
        yield made


@pytest.mark.parametrize("language", languages())
def test_a_link_of_the_scan_page_shows_a_code_to_somebody_without_a_login(
    served: ServedFleet, chromium: Browser, language: str
) -> None:
    operator = visit(chromium, served.address, language=language)
    page = log_in(operator, served.address, PASSWORD)
    page.goto(f"{served.address}/scan")
    name = page.locator("#link-send [name=id]").get_attribute("value")
    page.locator("#link-send button").click()
    expect(page.locator("#secret [data-secret]")).to_contain_text("/l/")
    link = page.locator("#secret [data-secret]").inner_text()
    served.do(lambda on: on.code(str(name), life_ms=3_600_000))
    operator.close()

    customer = visit(chromium, served.address, language=language)
    guest = customer.new_page()
    guest.goto(link)
    expect(guest.locator("h1")).to_have_text(said(language, "guest.start"))
    assert serious(guest) == []
    guest.locator(".btn.primary").click()
    expect(guest.locator("#guest .qr svg.code")).to_be_visible()
    assert serious(guest) == []
    assert customer.cookies() == [] or all(each["name"] in ("lang", "theme") for each in customer.cookies())
    assert not guest.evaluate("document.documentElement.scrollWidth > innerWidth")
    # The page notices by itself that the phone is linked.
    online: dict[Any, Any] = {"status": "connected", "connected_at": "9000000000000"}
    served.do(lambda on: on.redis.hset(keys.session(str(name)), mapping=online))
    expect(guest.locator("#guest[data-stage=done] h1")).to_have_text(said(language, "guest.done"))
    customer.close()
