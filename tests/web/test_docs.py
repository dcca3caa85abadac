"""`/docs` of both services: everything is served locally, and a real browser shows the operations."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser

from tests.dashboard.browsing import chromium, visit
from tests.processes import PRODUCT, Program, bare_environment, free_port
from tests.waiting import PATIENCE_S

__all__ = ["chromium"]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A whole server; the URLs of its two ports."""
    port = free_port()
    home: Path = tmp_path_factory.mktemp("docs")
    command = (*PRODUCT, "up", "--data-dir", str(home / "data"), "--port", "0", "--gateway-port", str(port))
    program = Program(command, log=home / "log", env=bare_environment(), cwd=home)
    try:
        yield program.said(r"is ready: (http://\S+)")[1], f"http://127.0.0.1:{port}"
    finally:
        program.end()


def fetch(url: str) -> httpx.Response:
    """Get a page with patience: on a busy machine the first OpenAPI document takes seconds."""
    return httpx.get(url, timeout=PATIENCE_S)


class Named(HTMLParser):
    """Every address that a page names."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "data-description")]


@pytest.mark.parametrize("port", [0, 1], ids=["orchestrator", "gateway"])
def test_the_page_and_everything_it_names_come_from_the_service_itself(services: tuple[str, str], port: int) -> None:
    page = fetch(f"{services[port]}/docs")
    assert (page.status_code, re.findall(r"https?://|[\"'(]//", page.text)) == (200, [])
    named = [urljoin(str(page.url), each) for each in Named(page.text).addresses if not each.startswith("data:")]
    assert len(set(named)) == 4, "a style sheet, two scripts, the description"
    for address in named:
        assert address.startswith(services[port])
        assert fetch(address).status_code == 200, address


@pytest.mark.parametrize("port", [0, 1], ids=["orchestrator", "gateway"])
def test_no_script_or_style_within_the_page_is_allowed(services: tuple[str, str], port: int) -> None:
    policy = fetch(f"{services[port]}/docs").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert fetch(f"{services[port]}/redoc").status_code == 404


@pytest.mark.browser
@pytest.mark.parametrize("port", [0, 1], ids=["orchestrator", "gateway"])
def test_a_browser_shows_the_operations_and_asks_nobody_else(
    services: tuple[str, str], port: int, chromium: Browser
) -> None:
    context = visit(chromium, services[port])
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{services[port]}/docs")
    operation = page.locator(".opblock", has_text="/api/v1/send").first
    operation.wait_for()
    operation.click()
    page.get_by_text("Request body").first.wait_for()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response-col_status", has_text="401").wait_for()
    hosts = {urlsplit(url).netloc for url in asked if not url.startswith("data:")}
    assert hosts == {urlsplit(services[port]).netloc}
    assert [text for text in said if "401" not in text] == []
    context.close()
