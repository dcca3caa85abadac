"""The cases of the guards around a session that a backup brings back. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import PHONE, Scene
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.backups import restored_sessions
from wa_orchestrator.store.backups.restored_sessions import Restored
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_keys import counted_in

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


async def _settled(scene: Scene, message: str, status: str = "unknown", left_at_ms: int = 0) -> object:
    return await queues.settle(
        scene.scripts,
        scene.places[message],
        status=status,
        reason="RESTORED",
        left_at_ms=left_at_ms,
        counted=counted_in("w1", "20250615"),
    )


@case("settled_open")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    assert await _settled(scene, message) == queues.Ended()
    assert await scene.status(message) == "unknown"
    assert await scene.scripts.redis.zscore(keys.LEASES, message) is None
    assert await _settled(scene, message, "cancelled") == queues.TooLate("unknown")
    assert await scene.status(message) == "unknown"


@case("settled_counts")
async def _(scene: Scene) -> None:
    await scene.connected()
    waiting, left = await scene.queued(), await scene.queued()
    await _settled(scene, waiting, "cancelled")
    await _settled(scene, left, left_at_ms=scene.clock.now_ms - 5)
    counted = await scene.scripts.redis.zrange(keys.sent(PHONE), 0, -1, withscores=True)
    assert counted == [(f"{left}#restored", scene.clock.now_ms - 5)]
