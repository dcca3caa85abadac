"""The cases of the guards around limits by tag and profiles. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import PHONE, Scene
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.store.sessions import tag_limits
from wa_orchestrator.store.sessions.tag_limits import TagLimitsSet

LIMIT = '{"tag": "vip", "limits": {"per_day": 5}, "raises": false}'


async def _ask(scene: Scene, *ids: str) -> TagLimitsSet | Changed:
    names = [keys.TAG_LIMITS, keys.DUE, keys.SESSIONS_CHANGED, keys.SESSIONS_ALL, *map(keys.session, ids)]
    args = ["vip", LIMIT, *ids]
    return await scene.scripts.ask("set_tag_limits", names, args, set=TagLimitsSet, changed=Changed)


@case("tag_sessions_counted")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    await scene.connected("w2")
    assert await _ask(scene, "w1") == Changed()  # another session was created since
    assert await tag_limits.read(scene.scripts) == {}


@case("tag_sessions_known")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    assert await _ask(scene, "w0") == Changed()  # one was deleted, and another created
    assert await tag_limits.read(scene.scripts) == {}


@case("tag_limits_wake")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    await sessions.change(scene.scripts, "w1", SessionChanges(tags=("vip",)))
    await scene.scripts.redis.delete(keys.DUE)
    assert await tag_limits.put(scene.scripts, "vip", LIMIT) == TagLimitsSet(1)
    assert await scene.scripts.redis.zscore(keys.DUE, PHONE) == scene.clock.now_ms


@case("profile_seen")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    stale = sessions.NewSession("w2", candidates=["p1"], seen_sessions=0)
    assert await sessions.create(scene.scripts, stale, per_proxy=4, per_phone=4) == Changed()
    fresh = sessions.NewSession("w2", candidates=["p1"], seen_sessions=1)
    assert await sessions.create(scene.scripts, fresh, per_proxy=4, per_phone=4) == sessions.Created("p1")
