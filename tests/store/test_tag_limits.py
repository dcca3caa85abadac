"""Every session has a copy of its tags' limits, whichever changes: the limits, the tags, or the sessions."""

import json

import pytest

from tests.conftest import Clock
from tests.store.scene import Scene
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.backups import restored_sessions
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.store.sessions import tag_limits


@pytest.fixture
def scene(held: Scripts, clock: Clock) -> Scene:
    return Scene(held, clock)


def _limit(tag: str, per_day: int) -> str:
    return json.dumps({"tag": tag, "limits": {"per_day": per_day}, "raises": False})


async def _copy(scene: Scene, session: str) -> dict[str, int]:
    text = await scene.scripts.redis.hget(keys.session(session), "tag_limits")
    return {each["tag"]: each["limits"]["per_day"] for each in json.loads(text or "[]")}


async def _create(scene: Scene, name: str, *tags: str) -> None:
    new = sessions.NewSession(name, candidates=["p1"], fields=SessionChanges(tags=tags))
    assert await sessions.create(scene.scripts, new, per_proxy=4, per_phone=4) == sessions.Created("p1")


async def test_a_session_has_the_limits_of_its_tags_from_its_first_moment(scene: Scene) -> None:
    await scene.proxy("p1")
    await _create(scene, "w1", "vip", "חיפה 🌊")
    await tag_limits.put(scene.scripts, "vip", _limit("vip", 5))
    await tag_limits.put(scene.scripts, "חיפה 🌊", _limit("חיפה 🌊", 7))
    await _create(scene, "w2", "vip")
    await _create(scene, "w3")
    assert [await _copy(scene, name) for name in ("w1", "w2", "w3")] == [{"vip": 5, "חיפה 🌊": 7}, {"vip": 5}, {}]


async def test_limits_follow_a_session_that_gets_other_tags(scene: Scene) -> None:
    await scene.proxy("p1")
    await tag_limits.put(scene.scripts, "vip", _limit("vip", 5))
    await _create(scene, "w1")
    await sessions.change(scene.scripts, "w1", SessionChanges(tags=("north", "vip")))
    assert await _copy(scene, "w1") == {"vip": 5}
    await tag_limits.put(scene.scripts, "vip", _limit("vip", 3))
    assert await _copy(scene, "w1") == {"vip": 3}
    assert await scene.scripts.redis.zscore(keys.SESSIONS_CHANGED, "w1")
    await tag_limits.remove(scene.scripts, "vip")
    assert await _copy(scene, "w1") == {}
    assert await tag_limits.read(scene.scripts) == {}


async def test_a_restored_session_gets_the_limits_that_its_tags_have_now(scene: Scene) -> None:
    await tag_limits.put(scene.scripts, "vip", _limit("vip", 3))
    then = f"[{_limit('vip', 9)}, {_limit('gone', 9)}]"
    fields = {"id": "w1", "status": "connected", "tags": '["vip", "gone"]', "tag_limits": then}
    await restored_sessions.restore(scene.scripts, "w1", fields, proxy="", proxy_fields={}, per_proxy=4, per_phone=4)
    assert await _copy(scene, "w1") == {"vip": 3}
