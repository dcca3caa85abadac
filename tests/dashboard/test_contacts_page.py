"""The page of contacts: who wrote, found by number, name and text, with what is known of them and nothing of others."""

import re

import pytest
from redis.asyncio import Redis

from tests.dashboard import sample_conversations
from tests.dashboard.sample_fleet import FleetBuilder, fill
from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.dashboard.pages import contacts as page
from wa_orchestrator.domain.access.permissions import EVERYTHING, Only, Reach, Role
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts

DANA, GIL = sample_conversations.DANA, "972525550100"


async def rendered(redis: Redis, language: str = "en", reach: Reach = EVERYTHING, **query: str) -> str:
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    person = Person(Role.VIEWER, "Maya", "c" * 40, "t", reach=reach)
    view = await renderer.view_as(person, "contacts", language)
    shown = await page.show(renderer, view, query)
    assert shown is not None
    return bytes(renderer.page(view, shown).body).decode()


def people(html: str) -> list[str]:
    return re.findall(r"/contacts\?who=(\w+)", html)


@pytest.fixture
async def filled(scripts: Scripts) -> FleetBuilder:
    await fill(scripts)
    on = FleetBuilder(scripts)
    await sample_conversations.fill(on)
    return on


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("language", ["en", "he"])
async def test_people_are_listed_and_found_by_number_name_and_text(redis: Redis, language: str) -> None:
    assert {DANA, GIL} <= set(people(await rendered(redis, language)))
    for text in ("052-555-0200", "דנה", "example street"):
        assert people(await rendered(redis, language, q=text)) == [DANA], text
    assert people(await rendered(redis, language, q="nobody at all")) == []


async def test_a_person_is_shown_with_notes_tags_opt_out_and_the_way_to_the_conversation(
    redis: Redis, filled: FleetBuilder
) -> None:
    record = keys.conversation(sample_conversations.SESSION, GIL)
    await redis.hset(record, mapping={"notes": "calls back <b>", "tags": '["vip"]'})
    await contacts.opt_out(filled.scripts, GIL, word="", via="api")
    html = await rendered(redis, who=GIL)
    assert "calls back &lt;b&gt;" in html
    assert "<bdi>vip</bdi>" in html
    assert "Asked to stop" in html
    assert html.count("&lt;b&gt;Gil&lt;/b&gt;") >= 2
    assert "<b>Gil" not in html
    assert f"/inbox?c={sample_conversations.conversation.id_of(sample_conversations.SESSION, GIL)}" in html


async def test_who_asked_one_of_our_phones_to_stop_is_said_to_have_asked_if_no_other_spoke_with_them(
    redis: Redis, filled: FleetBuilder
) -> None:
    phone = await redis.hget(keys.session(sample_conversations.SESSION), "phone")
    assert "Asked to stop" not in await rendered(redis)
    await contacts.opt_out_from(filled.scripts, GIL, phone=str(phone))
    html = await rendered(redis, who=GIL)
    assert html.count("Asked to stop") == 1
    assert "asked to stop" in html


@pytest.mark.usefixtures("filled")
async def test_who_sees_other_sessions_only_sees_none_of_these_people(redis: Redis) -> None:
    others = Only(frozenset({"worker_5"}), frozenset())
    assert people(await rendered(redis, reach=others)) == []
    html = await rendered(redis, reach=others, who=DANA, q="example street")
    assert people(html) == []
    assert 'id="contact"' not in html
    assert await redis.exists(keys.conversation(sample_conversations.SESSION, DANA))
