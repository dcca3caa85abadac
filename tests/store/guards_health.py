"""The cases of the guards around what a number's health is judged by. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import PHONE, Scene
from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import contacts, health_counts, outbox, queues
from wa_orchestrator.store.messages.message_keys import counted_in


async def _counts(scene: Scene) -> tuple[int, int, int]:
    """How many strangers were written to, how many of them answered, and how many were written to in a row."""
    found = await health_counts.strangers(scene.scripts, PHONE, (0, scene.clock.now_ms))
    return found.written, found.answered, found.in_a_row


async def _sent(scene: Scene, to: str) -> None:
    await scene.ack(await scene.sending(to))
    await scene.clock.pass_ms(60_000)


async def _wrote(scene: Scene, phone: str, lid: str = "", opts_out: str = "") -> None:
    said = contacts.Incoming("w1", PHONE, f"3EB0{phone}{lid}", "text", phone, lid)
    received = await contacts.receive(scene.scripts, said, keep_ms=1000, opts_out=opts_out)
    assert isinstance(received, contacts.Received)


@case("stranger")
async def _(scene: Scene) -> None:
    await scene.connected()
    began = scene.clock.now_ms
    for to in ("97251", "97252", "97251"):  # a second message to one of them is no second stranger
        await _sent(scene, to)
    assert await _counts(scene) == (2, 0, 2)
    counted = await health_counts.strangers(scene.scripts, PHONE, (began + 1, scene.clock.now_ms))
    assert (counted.written, counted.counted_since_ms) == (1, began)


@case("row_of_strangers")
async def _(scene: Scene) -> None:
    await scene.connected()
    await _wrote(scene, "97259")
    await _sent(scene, "97251")
    await _sent(scene, "97259")
    assert await _counts(scene) == (1, 0, 0)


@case("no_stranger_is_a_group")
async def _(scene: Scene) -> None:
    await scene.connected()
    await _sent(scene, "97251")
    await _sent(scene, "1203@g.us")
    assert await _counts(scene) == (1, 0, 1)


async def _confirm(scene: Scene, message: str) -> queues.Confirmed | queues.AlreadySent | queues.TooLate:
    return await queues.confirm(
        scene.scripts, scene.places[message], to=scene.recipients[message], counted=counted_in("w1", "20250615")
    )


@case("confirm_unknown")
async def _(scene: Scene) -> None:
    await scene.connected()
    failed = await scene.sending()
    await scene.nack(failed, backoff_ms=None)
    assert await _confirm(scene, failed) == queues.TooLate("failed")
    assert await scene.status(failed) == "failed"


@case("confirm_once")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.nack(message, backoff_ms=None, doubt=Doubt.RAISED)
    assert await _confirm(scene, message) == queues.Confirmed("sent")
    assert await _confirm(scene, message) == queues.AlreadySent("sent")
    assert await _counts(scene) == (1, 0, 1)
    assert await scene.scripts.redis.hget(keys.stats("w1", "20250615"), "sent") == "1"
    assert await scene.scripts.redis.zcard(keys.UNCONFIRMED) == 0
    assert await scene.scripts.redis.zcard(keys.DEAD) == 0


@case("answered")
async def _(scene: Scene) -> None:
    await scene.connected()
    for to in ("97251", "97252", "lid:77"):
        await _sent(scene, to)
    await _wrote(scene, "97258")  # nobody had written to them
    assert await _counts(scene) == (3, 0, 3)
    await _wrote(scene, "97251")
    assert await _counts(scene) == (3, 1, 0)
    await _wrote(scene, "", "77")
    assert await _counts(scene) == (3, 2, 0)


@case("stop_is_no_answer")
async def _(scene: Scene) -> None:
    await scene.connected()
    for to in ("97251", "97252"):
        await _sent(scene, to)
    await _wrote(scene, "97251", opts_out="stop")
    assert await _counts(scene) == (2, 0, 2)
    await _wrote(scene, "97252")
    assert await _counts(scene) == (2, 1, 0)


@case("refusal")
async def _(scene: Scene) -> None:
    await scene.connected()
    for reason in ("REACHOUT_LOCKED", "BAD_CONTENT"):
        message = await scene.sending()
        verdict = outbox.FailureVerdict(1, reason, None)
        failed = await outbox.nack(scene.scripts, scene.places[message], epoch=1, verdict=verdict, day="20250615")
        assert failed == outbox.Became("failed")
        await scene.clock.pass_ms(60_000)
    [day] = await health_counts.by_day(scene.scripts, ["w1"], ["20250615"])
    assert day.refused == 1
    assert await scene.scripts.redis.hget(keys.stats("w1", "20250615"), "failed") == "2"
