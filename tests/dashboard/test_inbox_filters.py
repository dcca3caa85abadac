"""The filters of the inbox: each says how many conversations it shows."""

import re

from redis.asyncio import Redis

from tests.dashboard import sample_conversations
from tests.dashboard.sample_conversations import DANA, SESSION
from tests.dashboard.sample_fleet import FleetBuilder, fill
from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.dashboard.pages import inbox
from wa_orchestrator.domain.access.permissions import Role
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_index
from wa_orchestrator.store.engine.scripts import Scripts

MAYA = Person(Role.OPERATOR, "Maya", "token", "hash", account="a_maya")


async def chips(redis: Redis, person: Person, **query: str) -> list[str]:
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    shown = await inbox.parts(renderer, await renderer.view_as(person, "inbox", "en"), query)
    return [
        " ".join(each.split())
        for each in re.findall(r"<a [^>]*>(.*?)</a>", re.sub(r"</?b[^>]*>", "", shown["inbox-chips"]))
    ]


async def test_a_person_sees_how_many_conversations_are_theirs(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    await sample_conversations.fill(FleetBuilder(scripts))
    assert await chips(redis, MAYA) == ["Open 2", "Waiting 2", "Mine 0", "Nobody's 2", "Closed 0"]
    await redis.hset(keys.conversation(SESSION, DANA), "assigned", MAYA.account)
    assert await chips(redis, MAYA) == ["Open 2", "Waiting 2", "Mine 1", "Nobody's 1", "Closed 0"]
    assert (await chips(redis, MAYA, session="worker_4"))[2] == "Mine 0"
    assert (await chips(redis, Person(Role.OPERATOR, "Gil", "token", "hash", account="a_gil")))[2] == "Mine 0"


async def test_a_count_that_did_not_look_at_all_conversations_says_so(redis: Redis, scripts: Scripts) -> None:
    await fill(scripts)
    await sample_conversations.fill(FleetBuilder(scripts))
    await redis.hset(keys.conversation(SESSION, DANA), "assigned", MAYA.account)
    assert await conversation_index.count_assigned(scripts, MAYA.account, most=3) == (1, True)
    assert (await conversation_index.count_assigned(scripts, MAYA.account, most=1))[1] is False
