"""Cases of the guards against a worker that speaks for what is not its own."""

from tests.store.guards import case
from tests.store.scene import LEASE_MS, PHONE, Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import outbox
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.sessions import commands

OTHER_PHONE = "972500000002"


async def _foreign(scene: Scene) -> str:
    """A message that `w1` holds; `w2` is a session of another phone, with the same epoch."""
    await scene.connected()
    await scene.connected("w2", OTHER_PHONE)
    return await scene.sending()


@case("ack_owner")
async def _(scene: Scene) -> None:
    message = await _foreign(scene)
    for status in ("sent", "delivered", "read"):
        assert await scene.ack(message, status, reporter="w2") == outbox.Stranger()
    assert await scene.status(message) == "sending"
    await scene.connected("w3", PHONE)
    assert await scene.ack(message, reporter="w3") == outbox.Became("sent")  # the same account


@case("nack_owner")
async def _(scene: Scene) -> None:
    message = await _foreign(scene)
    assert await scene.nack(message, session="w2") == outbox.Stranger()


@case("renew_owner")
async def _(scene: Scene) -> None:
    message = await _foreign(scene)
    place = Place(message, OTHER_PHONE, "w2")
    assert await outbox.renew(scene.scripts, place, epoch=1, lease_ms=LEASE_MS) == outbox.Stranger()


@case("write_owner")
async def _(scene: Scene) -> None:
    message = await _foreign(scene)
    assert await scene.confirm_write(message, session="w2") == outbox.Stranger()


async def _asked(scene: Scene, how: str) -> None:
    await scene.scripts.redis.set(keys.command_question("c_1"), f"{how} w1")


@case("result_asked")
async def _(scene: Scene) -> None:
    await _asked(scene, "awaited")
    assert not await commands.put_result(scene.scripts, "w2", "c_1", {"ok": True})
    assert not await commands.put_result(scene.scripts, "w1", "c_2", {"ok": True})
    assert not await scene.scripts.redis.keys("command:result:*")


@case("result_once")
async def _(scene: Scene) -> None:
    await _asked(scene, "awaited")
    assert await commands.put_result(scene.scripts, "w1", "c_1", {"ok": True})
    assert not await commands.put_result(scene.scripts, "w1", "c_1", {"ok": False})
    assert await scene.scripts.redis.llen(keys.command_result("c_1")) == 1


@case("result_awaited")
async def _(scene: Scene) -> None:
    await _asked(scene, "unheard")
    assert await commands.put_result(scene.scripts, "w1", "c_1", {"ok": True})
    assert not await scene.scripts.redis.exists(keys.command_result("c_1"))
    await _asked(scene, "awaited")
    assert await commands.put_result(scene.scripts, "w1", "c_1", {"ok": True})
    assert await scene.scripts.redis.exists(keys.command_result("c_1"))


@case("amend_known")
async def _(scene: Scene) -> None:
    gone = Place("m_000000000000000009", PHONE, "w1")
    assert not await outbox.amend(scene.scripts, gone, "DELETED")
    assert not await scene.scripts.redis.exists(keys.message(gone.message))
