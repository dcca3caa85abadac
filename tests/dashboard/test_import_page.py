"""The page for moving in: what was found is shown before anything is done, in both languages."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, api, serve_fleet
from tests.dashboard.serving import PASSWORD, VIEWER_PASSWORD
from tests.dashboard.test_buttons import said
from tests.domain.test_baileys_account import creds
from tests.orchestrator.fakes import FakeCheck
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.api.sessions.imports import SessionImportRoutes
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.store import keys
from wa_orchestrator.texts.catalogue import languages

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


def routers(context: Context) -> list[Any]:
    return [*api(context), SessionImportRoutes(context, ProxyHealth(context, LeaderLease(context), FakeCheck()))]


@pytest.fixture
def served(redis_url: str, chromium: Browser, tmp_path: Path) -> Iterator[ServedFleet]:
    assert chromium.is_connected()
    places = {"data_dir": tmp_path / "data", "sessions_dir": tmp_path / "sessions"}
    with serve_fleet(redis_url, routers, **places) as made:
        yield made


@pytest.fixture
def enter(served: ServedFleet, chromium: Browser) -> Iterator[Enter]:
    """Opens the page as somebody who reads a language."""
    contexts: list[BrowserContext] = []

    def entered(language: str, password: str = PASSWORD) -> Page:
        contexts.append(visit(chromium, served.address, language=language))
        page = log_in(contexts[-1], served.address, password)
        page.goto(f"{served.address}/import")
        return page

    yield entered
    for context in contexts:
        context.close()


@pytest.fixture
def old_place(tmp_path: Path) -> Path:
    """The folder of another program: one account that is whole, and one that is damaged."""
    place = tmp_path / "old"
    for name, found in (("oren/auth", creds()), ("dana/auth", creds(noiseKey=None))):
        directory = place / ".sessions" / "noweb" / name
        directory.mkdir(parents=True)
        (directory / "creds.json").write_text(json.dumps(found))
        (directory / "pre-key-1.json").write_text("{}")
    return place


@pytest.mark.parametrize("language", languages())
def test_what_was_found_is_shown_and_moves_in_when_somebody_says_so(
    served: ServedFleet, enter: Enter, old_place: Path, language: str
) -> None:
    before = {path: path.read_bytes() for path in old_place.rglob("*.json")}
    sessions = served.do(lambda on: on.redis.smembers(keys.SESSIONS_ALL))
    page = enter(language)
    expect(page.locator("#found")).to_be_hidden()
    page.set_input_files("#import-folder", old_place)
    rows = page.locator("#found tbody tr")
    expect(rows).to_have_count(2)
    good, bad = page.locator("tr", has_text="oren"), page.locator("tr", has_text="dana")
    expect(good).to_contain_text("Oren")
    expect(good).to_contain_text(said(language, "moving.ready"))
    expect(bad).to_contain_text(said(language, "moving.refused"))
    expect(page.locator("[data-progress]")).to_have_text(said(language, "moving.nothing_changed"))
    expect(page.locator("#headline")).to_have_text(said(language, "moving.found"))
    button = page.locator("#import-form .primary")
    expect(button).to_have_text(said(language, "moving.take.one"))
    expect(button).to_be_disabled()  # nobody said that the other program is off
    assert served.do(lambda on: on.redis.smembers(keys.SESSIONS_ALL)) == sessions

    page.fill("#import-form [name=tags]", "moved, north")
    page.check("#import-form [name=off]")
    button.click()
    expect(good).to_contain_text(said(language, "moving.taken"))
    expect(good.locator("a")).to_have_attribute("href", "/sessions/oren")
    expect(page.locator("#headline")).to_have_text(said(language, "moving.done"))
    expect(button).to_be_disabled()
    assert served.do(lambda on: on.redis.smembers(keys.SESSIONS_ALL)) - sessions == {"oren"}
    assert json.loads(served.do(lambda on: on.redis.hget(keys.session("oren"), "tags"))) == ["moved", "north"]
    assert {path: path.read_bytes() for path in old_place.rglob("*.json")} == before


#: Posts as the page does, with its token or another.
POST = """async ([body, token]) => {
  const headers = { 'X-CSRF-Token': token ?? document.body.dataset.csrf }
  const response = await fetch('/import/take', { method: 'POST', body, headers })
  return [response.status, await response.json()]
}"""


def test_a_viewer_cannot_move_anything_in_and_no_request_gets_by_without_its_token(
    served: ServedFleet, enter: Enter
) -> None:
    body = json.dumps({"number": 0, "place": "x", "id": "x", "files": {"creds.json": json.dumps(creds())}})
    viewer = enter("en", VIEWER_PASSWORD)
    expect(viewer.locator("#import-folder")).to_be_disabled()
    assert viewer.evaluate(POST, [body, None])[0] == 403
    operator = enter("en")
    assert operator.evaluate(POST, [body, "another"])[0] == 403
    assert operator.evaluate(POST, ["[]", None])[0] == 422
    status, told = operator.evaluate(POST, [body, None])
    assert (status, told["ok"]) == (200, False)  # nobody said that the other program is off
    assert "Stop the old program" in told["row"]
    assert not served.do(lambda on: on.redis.exists(keys.session("x")))
