"""The page of nodes: what it says of a lost node and asks before a drain, in every language."""

import pytest
from redis.asyncio import Redis

from tests.dashboard.sample_fleet import FleetBuilder
from tests.dashboard.serving import settings
from tests.dashboard.test_attention import ADMINISTRATOR
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.pages import nodes
from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.sessions import nodes as stored_nodes
from wa_orchestrator.texts.catalogue import languages, text

HEARD_AT = 1_760_000_000_000  # 08:53:20 in UTC
FENCE_MS = 20_000


async def shown(redis: Redis, language: str, *known: WorkerNode, **places: str) -> str:
    """The list of nodes where these sessions run."""
    builder = FleetBuilder(Scripts(redis))
    await stored_nodes.note(builder.scripts, known)
    proxies = [await builder.proxy(1)]
    for name, node in places.items():
        await builder.session(name, name, proxies)
        facts = {"status": "connected", "wanted": "running", "node": node, "last_ping_at": HEARD_AT}
        await redis.hset(keys.session(name), mapping=facts)
    several = {"runner": "swarm", "credentials": "server", "docker_image": "wa", "fence_ms": FENCE_MS}
    context = make_context(settings().model_copy(update=several), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(ADMINISTRATOR, "nodes", language)
    return str((await nodes.parts(renderer, view, {}))["node-list"])


def node(number: int, state: NodeState = NodeState.READY, slots: int = 128) -> WorkerNode:
    return WorkerNode(f"node-{number}", state, f"192.0.2.{number}", 2**32, slots)


@pytest.mark.parametrize("language", languages())
async def test_of_a_lost_node_the_page_tells_when_it_was_heard_and_when_its_sessions_may_start(
    redis: Redis, language: str
) -> None:
    page = await shown(redis, language, node(1), node(2, NodeState.LOST), s1="node-2", s2="node-2")
    # The fence, a hundredth of it for the clocks, and half a second to close the connection.
    assert ("08:53:20" in page, "08:53:40" in page) == (True, True)
    assert text(language, "nodes.lost_empty_text") not in page


@pytest.mark.parametrize("language", languages())
async def test_a_lost_node_without_sessions_was_heard_at_no_known_time(redis: Redis, language: str) -> None:
    page = await shown(redis, language, node(1), node(2, NodeState.LOST))
    assert text(language, "nodes.lost_empty_text") in page
    assert "08:53" not in page


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize(("elsewhere", "is_short"), [(1, True), (2, False)])
async def test_before_a_drain_somebody_is_told_how_many_find_room(
    redis: Redis, language: str, elsewhere: int, *, is_short: bool
) -> None:
    page = await shown(redis, language, node(1), node(2, slots=elsewhere), s1="node-1", s2="node-1")
    assert (text(language, "nodes.drain_room.one") in page) is is_short
