"""The cases of the guards around a session that a backup brings back. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import PHONE, Scene
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.backups import restored_sessions
from wa_orchestrator.store.backups.restored_sessions import Restored

_FIELDS = {"id": "w2", "status": "stopped", "phone": PHONE, "epoch": "7"}


async def _restored(scene: Scene, session_id: str = "w2", *, per_proxy: int = 4, per_phone: int = 4) -> object:
    return await restored_sessions.restore(
        scene.scripts, session_id, _FIELDS, proxy="p1", proxy_fields={}, per_proxy=per_proxy, per_phone=per_phone
    )


@case("restored_new")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    assert await _restored(scene, "w1") == sessions.Exists()
    assert await scene.scripts.redis.hget(keys.session("w1"), "status") == "connected"


@case("restored_phone_limit")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    assert await _restored(scene, per_phone=1) == sessions.PhoneFull(1)


@case("restored_room")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    assert await _restored(scene, per_proxy=1) == Restored("")
    assert await scene.scripts.redis.scard(keys.sessions_of_proxy("p1")) == 1
