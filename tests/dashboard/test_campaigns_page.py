"""The pages of campaigns in a real browser: a file with problems, a draft with its end date, start, pause, cancel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, serve_fleet
from tests.dashboard.serving import PASSWORD
from tests.dashboard.test_buttons import said
from wa_orchestrator.texts.catalogue import languages

pytestmark = pytest.mark.browser
#: The title of its plan, by its state.
WHEN = {"draft": "when_started", "sending": "when", "paused": "when_resumed"}
PEOPLE = "phone,name\n972501000001,<b>Dana</b>\n972501000002,\n"


@pytest.fixture
def served(redis_url: str, chromium: Browser, tmp_path: Path) -> Iterator[ServedFleet]:
    assert chromium.is_connected()
    with serve_fleet(redis_url, data_dir=tmp_path / "data") as made:
        yield made


def _fill(page: Page, file: Path) -> None:
    page.locator("[data-open=campaign-new]").click()
    dialog = page.locator("#campaign-new")
    dialog.locator("[name=name]").fill("November <i>")
    dialog.locator("[name=text]").fill("Hello {{name}} of {city}. להסרה השיבו הסר")
    dialog.locator("[name=consent]").fill("They ticked a box on the order form.")
    dialog.locator("[type=file]").set_input_files(file)
    expect(dialog.locator("[name=csv]")).to_have_value(PEOPLE)


@pytest.mark.parametrize("language", languages())
def test_a_campaign_is_checked_drafted_started_paused_and_cancelled(
    served: ServedFleet, chromium: Browser, tmp_path: Path, language: str
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(PEOPLE, "utf-8")
    context = visit(chromium, served.address, language=language)
    page = log_in(context, served.address, PASSWORD)
    page.goto(f"{served.address}/campaigns")
    expect(page.locator("#headline")).to_have_text(said(language, "campaigns.none_yet"))
    _fill(page, file)
    page.locator("#campaign-new .primary").click()
    error = page.locator("#campaign-new [data-error]")
    expect(error).to_contain_text("3")  # the line without a name
    page.locator("#campaign-new [name=skip]").check()
    page.locator("#campaign-new .primary").click()
    page.wait_for_url("**/campaigns/c_*")
    expect(page.locator("h1")).to_have_text("November <i>")
    expect(page.locator("#campaign-progress .notice")).to_contain_text("{city}")
    for state, button in (("draft", "start"), ("sending", "pause"), ("paused", "cancel")):
        expect(page.locator("#campaign-head")).to_contain_text(said(language, f"campaigns.state_{state}"))
        expect(page.locator("#cd-h")).to_have_text(said(language, f"campaigns.{WHEN[state]}"))
        page.locator(f"#campaign-head form[action$=campaign-{button}] button").click()
        if button != "pause":
            page.locator("#confirm [data-yes]").click()
    expect(page.locator("#campaign-head")).to_contain_text(said(language, "campaigns.state_cancelled"))
    page.goto(f"{served.address}/campaigns")
    expect(page.locator("#campaign-list .name")).to_have_text("November <i>")
    context.close()
