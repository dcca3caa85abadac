"""Guards of the scripts with which a message leaves Redis for the archive, and returns."""

from dataclasses import replace

from tests.store.guards import case
from tests.store.scene import Scene
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.history import ended_messages
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages import outbox, queues


async def _copied(scene: Scene) -> MessageCopy:
    """A message that was cancelled, and its copy."""
    await scene.connected()
    message = await scene.queued()
    assert await queues.cancel(scene.scripts, scene.places[message], reason="CANCELLED") == queues.Ended()
    (copy,) = await ended_messages.copies(scene.scripts, scene.clock.now_ms, most=10)
    return copy


async def _acked(scene: Scene, copy: MessageCopy) -> None:
    """A report that it was sent after all."""
    assert await scene.ack(copy.id, whatsapp_id=copy.fields["whatsapp_id"]) == outbox.Became("sent")


@case("copied_end")
async def _(scene: Scene) -> None:
    copy = await _copied(scene)
    # Of a change and its reverse only the instant remains.
    await scene.scripts.redis.zadd(keys.ENDED, {copy.id: copy.ended_at + 1})
    assert await ended_messages.remove(scene.scripts, [copy]) == 0
    assert await records.message(scene.scripts, copy.id)


@case("copied_whole")
async def _(scene: Scene) -> None:
    copy = await _copied(scene)
    await scene.scripts.redis.hset(keys.message(copy.id), "field_of_a_later_version", "1")
    assert await ended_messages.remove(scene.scripts, [copy]) == 0
    assert await records.message(scene.scripts, copy.id)


@case("copied_same")
async def _(scene: Scene) -> None:
    copy = await _copied(scene)
    await scene.scripts.redis.hset(keys.message(copy.id), "refusal_heard", "")
    stale = replace(copy, fields={**copy.fields, "refusal_heard": "2"})
    assert await ended_messages.remove(scene.scripts, [stale]) == 0
    assert await records.message(scene.scripts, copy.id)


@case("restored_once")
async def _(scene: Scene) -> None:
    copy = await _copied(scene)
    assert await ended_messages.remove(scene.scripts, [copy]) == 1
    assert await ended_messages.restore(scene.scripts, copy)
    await _acked(scene, copy)
    assert not await ended_messages.restore(scene.scripts, copy)
    message = await records.message(scene.scripts, copy.id)
    assert message is not None
    assert message.status == "sent"
