"""What a browser gets that nobody has set up: its language, and a page for an address that does not exist."""

from collections.abc import AsyncIterator

import httpx
import pytest
from redis.asyncio import Redis

from tests.dashboard.serving import API_KEY, settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.app import install
from wa_orchestrator.web import health
from wa_orchestrator.web.app import make_app

HERE = "http://127.0.0.1:3001"
FROM_A_BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def browser(redis: Redis) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that has never been here."""
    context = make_context(settings(3001), redis)
    app = make_app(context, [health.router(context)])
    install(app, context)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=HERE) as client:
        yield client


@pytest.mark.parametrize(
    ("accepts", "language"),
    [
        ("he-IL,he;q=0.9,en-US;q=0.8,en;q=0.7", "he"),
        ("iw", "he"),
        ("en-US,en;q=0.9,he;q=0.8", "en"),
        ("en;q=0.5, he", "he"),
        ("fr-FR,fr;q=0.9,he;q=0.4", "he"),
        ("he;q=0, en", "en"),
        ("fr", "en"),
        ("*", "en"),
        ("he;q=high", "en"),
        ("", "en"),
    ],
)
async def test_a_browser_gets_the_language_it_asks_for(browser: httpx.AsyncClient, accepts: str, language: str) -> None:
    page = await browser.get("/login", headers={"Accept-Language": accepts})
    assert f'<html lang="{language}"' in page.text


async def test_a_language_that_a_person_selected_is_kept_in_a_browser_of_another(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/login", headers={"Accept-Language": "he", "Cookie": "lang=en"})
    assert '<html lang="en"' in page.text


@pytest.mark.parametrize("path", ["/nope", "/sessions/worker_1/nope", "/logout"])
async def test_an_unknown_address_is_a_page_with_a_way_back(browser: httpx.AsyncClient, path: str) -> None:
    page = await browser.get(path, headers=FROM_A_BROWSER | {"Accept-Language": "he"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert '<html lang="he"' in page.text
    assert 'href="/"' in page.text


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/nope", {"Accept": "*/*"}), ("/nope", {"Accept": "application/json"}), ("/api/nope", FROM_A_BROWSER)],
)
async def test_a_program_gets_an_unknown_address_as_json(
    browser: httpx.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    answer = await browser.get(path, headers=headers | {"X-API-Key": API_KEY})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "NOT_FOUND"


async def test_a_form_sent_to_an_unknown_address_gets_json(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/health", headers=FROM_A_BROWSER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_a_monitor_that_asks_with_head_is_answered(browser: httpx.AsyncClient, path: str) -> None:
    assert (await browser.head(path)).status_code == 200
