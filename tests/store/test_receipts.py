"""Receipts come in any order and by a clock of whole seconds; a message's timeline is in order all the same."""

from tests.conftest import Clock
from tests.store.scene import Scene
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import outbox


async def test_a_receipt_that_overtakes_the_acknowledgement_means_sent_too(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected()
    message = await scene.sending()
    assert await scene.ack(message, "delivered") == outbox.Became("delivered")
    assert await scene.ack(message, "sent") == outbox.Already("delivered")
    statuses = [status for _, status, _ in await records.timeline(held, message)]
    assert statuses[-2:] == ["sent", "delivered"]
    told = await records.message(held, message)
    assert told is not None
    assert told.sent_at == told.delivered_at == clock.now_ms
    events = [entry.fields["type"] for entry in await event_stream.read(held, after="0", most=100)]
    assert events[-2:] == ["message.sent", "message.delivered"]


async def test_what_comes_later_does_not_look_earlier(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected()
    message = await scene.sending()
    await scene.ack(message, "sent")
    sent_at = clock.now_ms
    await clock.set(sent_at - sent_at % 1000 - 1000)
    await scene.ack(message, "read")
    told = await records.message(held, message)
    assert told is not None
    assert told.read_at == sent_at
