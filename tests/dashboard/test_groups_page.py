"""The page of an account's groups: what WhatsApp told is shown, what it refuses is said, and viewers change nothing."""

from typing import Any

import pytest
from redis.asyncio import Redis

from tests.dashboard.sample_fleet import fill
from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.dashboard.pages import groups
from wa_orchestrator.domain.access.permissions import Role
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.groups import (
    GroupDetail,
    GroupLink,
    GroupList,
    GroupMember,
    GroupView,
    JoinRequest,
)
from wa_orchestrator.orchestrator.api.groups import JoinRequests as Requests
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.texts.catalogue import texts

GROUP = "120363025246125486@g.us"
ABOUT: dict[str, Any] = {"id": GROUP, "subject": "Course <7>", "size": 2, "admin": True, "join_approval": True}


class Told:
    """WhatsApp, as the API tells of it."""

    refusal = ""

    async def list_groups(self, *_: Any) -> GroupList:
        if self.refusal:
            raise Refused(self.refusal, "No.", 403)
        return GroupList(groups=[GroupView(**ABOUT)], complete=True)

    async def get_group(self, *_: Any) -> GroupDetail:
        return GroupDetail(
            **ABOUT, members=[GroupMember(phone="972501234567", lid=""), GroupMember(phone="", lid="123", admin=True)]
        )

    async def get_group_link(self, *_: Any) -> GroupLink:
        return GroupLink(link="https://chat.whatsapp.com/AbC")

    async def list_join_requests(self, *_: Any) -> Requests:
        return Requests(requests=[JoinRequest(phone="", lid="456")])


async def rendered(redis: Redis, role: Role, language: str, *, refusal: str = "") -> str:
    context = make_context(settings(), redis)
    renderer, told = Renderer(context, SnapshotReader(context)), Told()
    told.refusal = refusal
    renderer.groups = told  # type: ignore[assignment]
    view = await renderer.view_as(Person(role, "Maya", "c" * 40, "t"), "groups", language)
    shown = await groups.show(renderer, view, {"id": "worker_4", "group": GROUP})
    assert shown is not None
    return bytes(renderer.page(view, shown).body).decode()


@pytest.mark.parametrize("language", ["en", "he"])
async def test_a_group_is_shown_with_its_members_its_link_and_who_asks(
    redis: Redis, scripts: Scripts, language: str
) -> None:
    await fill(scripts)
    page = await rendered(redis, Role.OPERATOR, language)
    assert "Course &lt;7&gt;" in page
    assert "<7>" not in page
    assert "https://chat.whatsapp.com/AbC" in page
    assert 'value="lid:456"' in page
    for action in ("create", "rename", "approval", "leave", "link", "answer", "remove"):
        assert f'action="/do/group-{action}"' in page, action
    assert 'name="member" value="972501234567"' in page
    assert 'value="lid:123"' not in page  # an admin is not removed here


async def test_a_viewer_sees_members_and_gets_no_link(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    page = await rendered(redis, Role.VIEWER, "en")
    assert "Course &lt;7&gt;" in page
    assert "chat.whatsapp.com" not in page
    assert "group-remove" not in page
    assert "group-create" not in page


async def test_what_whatsapp_refuses_is_said_in_the_language_of_the_page(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    page = await rendered(redis, Role.OPERATOR, "he", refusal="GROUP_FORBIDDEN")
    assert "החשבון אינו בקבוצה הזאת" in page


@pytest.mark.parametrize("language", ["en", "he"])
async def test_groups_that_could_not_be_read_are_not_said_to_be_none(
    redis: Redis, scripts: Scripts, language: str
) -> None:
    await fill(scripts)
    page = await rendered(redis, Role.OPERATOR, language, refusal="SESSION_NOT_CONNECTED")
    assert {"en": "No.", "he": texts("he")["error.SESSION_NOT_CONNECTED"]}[language] in page
    assert texts(language)["groups.none"] not in page
    assert "group-create" not in page


async def test_the_page_of_a_session_that_one_does_not_see_is_gone(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(Person(Role.OPERATOR, "Maya", "c" * 40, "t"), "groups", "en")
    assert await groups.show(renderer, view, {"id": "worker_none"}) is None
