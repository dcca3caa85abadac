"""The cases of the guards around events of workers. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import PHONE, Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.events import worker_events
from wa_orchestrator.store.events.worker_events import EventAccepted, EventDelivery, InProgress, Repeated
from wa_orchestrator.store.messages import contacts, outbox
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.records import SessionChanges

PING = SessionChanges(ping_lag_ms=7)


def delivery(name: str = "evt_1", epoch: int = 1) -> EventDelivery:
    return EventDelivery("w1", epoch, name, b"{}", 60_000)


@case("event_epoch")
async def _(scene: Scene) -> None:
    await scene.connected()
    assert await worker_events.accept_ping(scene.scripts, delivery(epoch=2), PING) == Fenced(1)
    message = await scene.sending()
    assert await scene.ack(message, delivery=delivery(epoch=0)) == Fenced(1)
    assert await scene.status(message) == "sending"
    assert await contacts.receive(scene.scripts, _said("A"), keep_ms=1000, delivery=delivery(epoch=2)) == Fenced(1)
    nobody = EventDelivery("nobody", 0, "evt_1", b"{}", 60_000)
    assert await worker_events.accept_ping(scene.scripts, nobody, PING) == Fenced(0)
    assert not await scene.scripts.redis.exists(keys.session("nobody"))


@case("event_once")
async def _(scene: Scene) -> None:
    await scene.connected()
    assert await worker_events.accept_ping(scene.scripts, delivery(), PING) == EventAccepted()
    assert await worker_events.accept_ping(scene.scripts, delivery(), PING) == Repeated()
    message = await scene.sending()
    assert await scene.ack(message, delivery=delivery("evt_2")) == outbox.Became("sent")
    assert await scene.ack(message, "read", delivery=delivery("evt_2")) == Repeated()
    assert await scene.status(message) == "sent"
    said = await contacts.receive(scene.scripts, _said("A"), keep_ms=1000, delivery=delivery("evt_3"))
    assert said == contacts.Received(rest=False)
    again = await contacts.receive(scene.scripts, _said("B"), keep_ms=1000, delivery=delivery("evt_3"))
    assert again == Repeated()


@case("event_in_progress")
async def _(scene: Scene) -> None:
    await scene.connected()
    assert await worker_events.begin(scene.scripts, delivery()) is None
    assert await worker_events.accept_ping(scene.scripts, delivery(), PING) == InProgress()
    await worker_events.accept(scene.scripts, delivery())
    assert await worker_events.accept_ping(scene.scripts, delivery(), PING) == Repeated()


@case("rest_first")
async def _(scene: Scene) -> None:
    await scene.connected()
    said = await contacts.receive(scene.scripts, _said("A"), keep_ms=1000, delivery=delivery(), opts_out="STOP")
    assert said == contacts.Received(rest=True)
    again = await contacts.receive(scene.scripts, _said("A"), keep_ms=1000, delivery=delivery(), opts_out="STOP")
    assert again == InProgress()
    await worker_events.release(scene.scripts, delivery())
    again = await contacts.receive(scene.scripts, _said("A"), keep_ms=1000, delivery=delivery(), opts_out="STOP")
    assert again == contacts.ReceivedBefore(rest=True)


def _said(name: str) -> contacts.Incoming:
    return contacts.Incoming("w1", PHONE, name, "text", "97251", fields={"text": "hello", "at": 1})
