"""What people change on the page of contacts, in a browser: notes, tags, and whether somebody may be written to."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard import sample_conversations
from tests.dashboard.browsing import log_in, visit
from tests.dashboard.sample_conversations import DANA, HERE, SESSION
from tests.dashboard.sample_fleet import FleetBuilder
from tests.dashboard.served_fleet import ServedFleet, serve_fleet
from tests.dashboard.serving import PASSWORD, VIEWER_PASSWORD
from tests.dashboard.test_pages import OVER_THE_EDGE, serious
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_records
from wa_orchestrator.store.conversations.conversation_records import StoredConversation
from wa_orchestrator.store.messages import contacts

pytestmark = pytest.mark.browser


@pytest.fixture
def served(redis_url: str, chromium: Browser) -> Iterator[ServedFleet]:
    """A sample fleet with conversations."""
    assert chromium.is_connected()
    with serve_fleet(redis_url) as made:
        made.do(sample_conversations.fill)
        yield made


async def _known(on: FleetBuilder) -> StoredConversation:
    found = await conversation_records.find(on.scripts, SESSION, DANA)
    assert found is not None
    return found


async def _assign(on: FleetBuilder) -> None:
    await on.scripts.redis.hset(keys.conversation(SESSION, DANA), "assigned", "somebody")


async def _is_stopped(on: FleetBuilder) -> bool:
    return await contacts.opt_out_of(on.scripts, DANA) is not None


async def _audited(on: FleetBuilder) -> set[str]:
    entries: Any = await on.scripts.redis.xrange(keys.AUDIT)
    return {fields["action"] for _, fields in entries}


@pytest.mark.parametrize("language", ["en", "he"])
def test_notes_tags_and_the_opt_out_of_a_person_are_changed_on_the_page(
    served: ServedFleet, chromium: Browser, language: str
) -> None:
    served.do(_assign)
    page = log_in(visit(chromium, served.address, language=language), served.address, PASSWORD)
    page.goto(f"{served.address}/contacts?who={DANA}")
    form = page.locator(f'#contact form:has(input[value="{HERE}"])')
    form.locator("[name=notes]").fill("calls back on Monday")
    form.locator("[name=tags]").fill("vip, חיפה")
    form.locator("button").click()
    expect(page.locator("table.contacts .tag").first).to_be_visible()
    known = served.do(_known)
    assert (known.notes, set(known.tags), known.assigned) == ("calls back on Monday", {"vip", "חיפה"}, "somebody")
    for action, stopped in (("opt-out", True), ("opt-in", False)):
        page.click(f'#contact form[action="/do/{action}"] button')
        page.click("dialog[open] [data-yes]")
        other = "opt-in" if stopped else "opt-out"
        expect(page.locator(f'#contact form[action="/do/{other}"]')).to_be_visible()
        assert served.do(_is_stopped) is stopped
    assert {"conversation.change", "opt_out.add", "opt_out.delete"} <= served.do(_audited)
    assert serious(page) == []
    assert page.evaluate(OVER_THE_EDGE) == []
    page.context.close()


def test_a_viewer_sees_a_person_and_changes_nothing(served: ServedFleet, chromium: Browser) -> None:
    page = log_in(visit(chromium, served.address), served.address, VIEWER_PASSWORD)
    page.goto(f"{served.address}/contacts?who={DANA}")
    expect(page.locator("#contact")).to_be_visible()
    expect(page.locator("#contact form")).to_have_count(0)
    page.context.close()
