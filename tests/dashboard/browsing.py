"""Chromium for tests, without its background traffic."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.waiting import PATIENCE_S

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def require_chromium() -> None:
    """Skip visibly where there is no Chromium; on the build machine that is a failure."""
    if Path(CHROMIUM).exists():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{CHROMIUM} is missing")
    pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for a module, and no longer: while Playwright runs, no test of another module can run a loop."""
    require_chromium()
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def visit(
    browser: Browser,
    address: str,
    *,
    language: str = "en",
    theme: str = "light",
    width: int = 1280,
    zone: str | None = None,
) -> BrowserContext:
    """A person's browser with nothing in it but their choice of language and theme; it may be in another time zone."""
    context = browser.new_context(viewport={"width": width, "height": 900}, timezone_id=zone)
    context.set_default_timeout(PATIENCE_S * 1000)
    context.add_cookies(
        [{"name": name, "value": value, "url": address} for name, value in (("lang", language), ("theme", theme))]
    )
    return context


def log_in(context: BrowserContext, address: str, password: str, name: str = "Dana") -> Page:
    """Log in with a password."""
    page = context.new_page()
    page.goto(f"{address}/login")
    page.fill("[name=password]", password)
    page.fill("[name=name]", name)
    page.press("[name=name]", "Enter")
    page.wait_for_selector("nav.nav")
    page.wait_for_load_state()  # its script listens: a key that is pressed earlier does nothing
    return page
