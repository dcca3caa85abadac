"""The cases of the guards around contacts, bursts, locks and another sender. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import LEASE_MS, PHONE, Scene
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.domain.stream_events import CallReported, EventType
from wa_orchestrator.domain.workers.drift import Kind, Shape, Sighting
from wa_orchestrator.store import due_items, keys, records
from wa_orchestrator.store.due_items import Due
from wa_orchestrator.store.events import drift as drift_store
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.messages import contacts, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.messages.queues import Rerouted
from wa_orchestrator.store.sessions import client_version

OTHER = "972500000002"


@case("reroute_waiting")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    moved = await queues.reroute(scene.scripts, scene.places[message], phone=OTHER, session="w2")
    assert moved == queues.TooLate("sending")
    assert await scene.scripts.redis.llen(keys.GATEWAY_JOBS) == 0


@case("route_waiting")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.nack(message)
    assert await queues.reroute(scene.scripts, scene.places[message], phone=PHONE, session="w2") == Rerouted()
    scene.places[message] = Place(message, PHONE, "w2")
    assert await scene.ack(message) == outbox.Became("sent")
    assert await scene.route(message) == queues.Gone()
    assert await scene.scripts.redis.llen(keys.GATEWAY_JOBS) == 0
    assert await scene.status(message) == "sent"


@case("reroute_untried")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.nack(message)
    moved = await queues.reroute(scene.scripts, scene.places[message], phone=OTHER, session="w2")
    assert moved == queues.TooLate("tried")
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, -1) == [message]


async def _retried(scene: Scene, message: str, reason: str) -> object:
    """A message that waits fails for this reason, a person retries it, and another phone shall send it; what comes of it."""
    place = scene.places[message]
    assert await queues.fail(scene.scripts, place, reason=reason, counted=("stats", "totals")) == queues.Ended()
    assert await queues.retry(scene.scripts, place, to="97251") == queues.Queued()
    return await queues.reroute(scene.scripts, place, phone=OTHER, session="w2")


@case("retry_told")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.connected("w2", OTHER, "p2")
    message = await scene.sending()
    await scene.nack(message)
    assert await _retried(scene, message, "NO_ACK") == queues.TooLate("tried")
    assert await _retried(scene, message, "SESSION_RELINKED") == Rerouted()
    # The worker of the other phone holds it now, and from then on that is the phone it is tied to.
    scene.places[message] = Place(message, OTHER, "w2")
    assert await scene.route(message) == queues.Queued()
    assert isinstance(await scene.release(message), queues.Released)
    assert isinstance(await scene.claim(session="w2", phone=OTHER), tuple)
    await scene.nack(message, attempts=1)
    back = await queues.reroute(scene.scripts, scene.places[message], phone=PHONE, session="w1")
    assert back == queues.TooLate("tried")


async def _moved_on(scene: Scene) -> str:
    """A message that was given to another phone's session after somebody had seen it at its first place; its id."""
    await scene.connected()
    await scene.connected("w2", OTHER, "p2")
    message = await scene.queued()
    assert await queues.reroute(scene.scripts, scene.places[message], phone=OTHER, session="w2") == Rerouted()
    return message


@case("reroute_place")
async def _(scene: Scene) -> None:
    message = await _moved_on(scene)
    assert await queues.reroute(scene.scripts, scene.places[message], phone=PHONE, session="w1") == queues.Gone()
    assert await scene.scripts.redis.hgetall(keys.GATEWAY_WAITING) == {OTHER: "1"}


@case("route_place")
async def _(scene: Scene) -> None:
    message = await _moved_on(scene)
    assert await scene.route(message) == queues.Gone()
    assert await scene.scripts.redis.lrange(keys.GATEWAY_JOBS, 0, -1) == [message]


@case("cancel_place")
async def _(scene: Scene) -> None:
    message = await _moved_on(scene)
    stale, scene.places[message] = scene.places[message], Place(message, OTHER, "w2")
    await scene.route(message)
    assert await queues.cancel(scene.scripts, stale) == queues.Gone()
    assert await scene.status(message) == "queued"


@case("promote_place")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.connected("w2", OTHER, "p2")
    message = await scene.accept(due_ms=scene.clock.now_ms + 1000)
    stale = scene.places[message]
    await scene.route(message)
    assert await queues.reroute(scene.scripts, stale, phone=OTHER, session="w2") == Rerouted()
    scene.places[message] = Place(message, OTHER, "w2")
    await scene.route(message)
    await scene.clock.pass_ms(1000)
    assert not await queues.promote(scene.scripts, stale)
    assert await scene.scripts.redis.zcard(keys.queue(PHONE)) == 0


@case("claim_phone")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    assert isinstance(await scene.release(message), queues.Released)
    await scene.scripts.redis.hset(keys.session("w1"), "phone", OTHER)
    for seen in (OTHER, PHONE):  # whoever looked before the session got its other phone must not take it either
        assert await scene.claim(phone=seen) == outbox.Empty()
    assert await scene.status(message) == "scheduled"


@case("burst_once")
async def _(scene: Scene) -> None:
    for _ in range(2):
        await queues.mark_burst(scene.scripts, PHONE, session="w1", submitted=99, burst_ms=1000)
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 1


@case("lock_guess")
async def _(scene: Scene) -> None:
    told = scene.clock.now_ms + 90_000
    await contacts.limit(scene.scripts, PHONE, "lock", session="w1", until_ms=told, source="reported")
    await contacts.limit(scene.scripts, PHONE, "lock", session="w1", until_ms=told - 1000, source="guessed")
    assert await scene.scripts.redis.hget(keys.pace(PHONE), "lock_until") == str(told)


@case("cap_guess")
async def _(scene: Scene) -> None:
    told = scene.clock.now_ms + 90_000
    await contacts.limit(scene.scripts, PHONE, "cap", session="w1", until_ms=told, source="reported")
    await contacts.limit(scene.scripts, PHONE, "cap", session="w1", until_ms=told + 1000, source="guessed")
    assert await scene.scripts.redis.hget(keys.pace(PHONE), "cap_until") == str(told)


@case("lock_order")
async def _(scene: Scene) -> None:
    async def says(number: int, until_ms: int, source: str, epoch: int = 1) -> None:
        report = contacts.ReportNumber(epoch, number)
        await contacts.limit(
            scene.scripts, PHONE, "lock", session="w1", until_ms=until_ms, source=source, report=report
        )

    async def is_locked() -> bool:
        return int(await scene.scripts.redis.hget(keys.pace(PHONE), "lock_until") or 0) > scene.clock.now_ms

    later = scene.clock.now_ms + 90_000
    await says(7, 0, "reported")
    await says(6, later, "guessed")  # what was refused before WhatsApp said that there is no lock
    assert not await is_locked()
    await says(8, later, "guessed")
    await says(7, 0, "reported")  # an older word, again
    assert await is_locked()
    await says(9, 0, "reported")
    await says(1, later, "guessed", epoch=2)  # another worker's numbers begin anew
    assert await is_locked()


@case("lock_news")
async def _(scene: Scene) -> None:
    for _ in range(2):
        await contacts.limit(
            scene.scripts, PHONE, "lock", session="w1", until_ms=scene.clock.now_ms + 90_000, source="reported"
        )
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 1


@case("still_aside")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 90_000)
    assert await scene.release(message) == queues.SetAside()
    assert await _restore(scene, 2, message, "m_unknown") == ["reopened", 1]
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, -1) == [message]


async def _restore(scene: Scene, returning: int, *ids: str) -> object:
    names = [keys.set_aside(PHONE), keys.queue(PHONE), keys.DUE, keys.contacts(PHONE)]
    return await scene.scripts.run("reopen_messages", names, [PHONE, "97251", returning, *ids])


async def _aside(scene: Scene, to: str = "97251") -> str:
    """A message to a new contact that had to be set aside; its id."""
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 90_000)
    message = await scene.queued(to)
    assert await scene.release(message) == queues.SetAside()
    return message


@case("aside_seen")
async def _(scene: Scene) -> None:
    await scene.connected()
    seen = await _aside(scene)
    await _aside(scene)
    assert await _restore(scene, 1, seen) == ["changed"]
    assert not await scene.scripts.redis.exists(keys.contacts(PHONE))


@case("known_with_aside")
async def _(scene: Scene) -> None:
    await scene.connected()
    first, second = await _aside(scene), await scene.queued()
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.Received(rest=True)
    assert await scene.release(second) == queues.SetAside()  # before the caller has gone on
    assert await contacts.reopen(scene.scripts, PHONE, "97251", by="writing") == 2
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, -1) == [first, second]
    assert isinstance(await scene.release(first), queues.Released)


@case("aside_first")
async def _(scene: Scene) -> None:
    await scene.connected()
    await _aside(scene, "lid:123")
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "", "123")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.Received(rest=True)
    shown = contacts.Incoming("w1", PHONE, "3EB0AB", "text", "97251", "123", is_ours=True)
    assert await contacts.receive(scene.scripts, shown, keep_ms=1000) == contacts.Received(rest=True)
    again = await contacts.receive(scene.scripts, shown, keep_ms=1000)
    assert again == contacts.ReceivedBefore(rest=True)


@case("lid_opted_out")
async def _(scene: Scene) -> None:
    await contacts.opt_out(scene.scripts, "lid:123", word="STOP", via="reply")
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", "1203@g.us")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.Received(rest=True)


@case("phone_of_others")
async def _(scene: Scene) -> None:
    await contacts.set_names(scene.scripts, "97251", "123")
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "124")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.Received(rest=True)
    assert await contacts.lid_of_phone(scene.scripts, "97251") == "123"


@case("conversation_of_lid")
async def _(scene: Scene) -> None:
    await contacts.set_affinity(scene.scripts, "lid:123", "w2")
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", "1203@g.us")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000)
    assert await contacts.affinity(scene.scripts, "97251") == "w2"


@case("receive_once")
async def _(scene: Scene) -> None:
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", fields={"text": "hello"})
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.Received(rest=False)
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.ReceivedBefore(rest=False)


@case("newest_revision")
async def _(scene: Scene) -> None:
    await client_version.record_login(scene.scripts, "w1", 7)
    await client_version.record_login(scene.scripts, "w2", 5)
    assert await client_version.newest_revision(scene.scripts) == 7
    assert (await client_version.read(scene.scripts))[0].revision == 5


@case("expiry_unknown")
async def _(scene: Scene) -> None:
    assert not await client_version.note_expiry(scene.scripts, 0, "{}")
    assert await client_version.note_expiry(scene.scripts, 5_000, "{}")
    assert await client_version.note_expiry(scene.scripts, 0, "{}")


@case("expiry_sooner")
async def _(scene: Scene) -> None:
    assert await client_version.note_expiry(scene.scripts, 5_000, "{}")
    assert not await client_version.note_expiry(scene.scripts, 5_000, "{}")
    assert not await client_version.note_expiry(scene.scripts, 6_000, "{}")
    assert await client_version.note_expiry(scene.scripts, 4_000, "{}")


@case("identity_once")
async def _(scene: Scene) -> None:
    told = {"session": "w1", "contact_phone": "97251", "old_lid": "", "new_lid": "2", "is_proven": True}
    assert await contacts.change_identity(scene.scripts, PHONE, **told)
    assert not await contacts.change_identity(scene.scripts, PHONE, **told)


@case("identity_unproven")
async def _(scene: Scene) -> None:
    await contacts.set_names(scene.scripts, "97251", "1")
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "97251")
    told = {"session": "w1", "contact_phone": "97251", "old_lid": "1", "new_lid": "2", "is_proven": False}
    assert await contacts.change_identity(scene.scripts, PHONE, **told)
    assert await contacts.phone_of_lid(scene.scripts, "1") == "97251"


@case("newer_lid")
async def _(scene: Scene) -> None:
    await contacts.set_names(scene.scripts, "97251", "7")
    told = {"session": "w1", "contact_phone": "97251", "old_lid": "1", "new_lid": "2", "is_proven": True}
    assert not await contacts.change_identity(scene.scripts, PHONE, **told)
    assert await contacts.lid_of_phone(scene.scripts, "97251") == "7"


@case("old_lid_of_others")
async def _(scene: Scene) -> None:
    await contacts.set_names(scene.scripts, "97252", "1")
    told = {"session": "w1", "contact_phone": "97251", "old_lid": "1", "new_lid": "2", "is_proven": True}
    assert await contacts.change_identity(scene.scripts, PHONE, **told)
    assert await contacts.phone_of_lid(scene.scripts, "1") == "97252"


@case("new_lid_of_others")
async def _(scene: Scene) -> None:
    await contacts.set_names(scene.scripts, "97252", "2")
    told = {"session": "w1", "contact_phone": "97251", "old_lid": "1", "new_lid": "2", "is_proven": True}
    assert await contacts.change_identity(scene.scripts, PHONE, **told)
    assert await contacts.phone_of_lid(scene.scripts, "2") == "97252"


@case("conversation_of_others")
async def _(scene: Scene) -> None:
    await contacts.set_affinity(scene.scripts, "97251", "w2")
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000)
    assert await contacts.affinity(scene.scripts, "97251") == "w2"


@case("lid_of_others")
async def _(scene: Scene) -> None:
    await contacts.set_names(scene.scripts, "97252", "123")
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000)
    assert await contacts.phone_of_lid(scene.scripts, "123") == "97252"


@case("drift_full")
async def _(scene: Scene) -> None:
    for number in range(drift_store.MOST_SHAPES + 1):
        sighting = Sighting(Shape(Kind.FIELD, str(number)), 1, 0, 0)
        await drift_store.record(scene.scripts, "w1", sighting)
    assert len(await drift_store.everything(scene.scripts)) == drift_store.MOST_SHAPES


@case("undecryptable_once")
async def _(scene: Scene) -> None:
    unread = contacts.Incoming("w1", PHONE, "3EB0AA", "", "97251", "123")
    assert await contacts.report_undecryptable(scene.scripts, unread, reason="decrypt", keep_ms=1000)
    assert not await contacts.report_undecryptable(scene.scripts, unread, reason="decrypt", keep_ms=1000)


@case("readable_meanwhile")
async def _(scene: Scene) -> None:
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", fields={"text": "hello"})
    assert await contacts.receive(scene.scripts, said, keep_ms=1000)
    assert not await contacts.report_undecryptable(scene.scripts, said, reason="decrypt", keep_ms=1000)


async def _second_device(scene: Scene) -> None:
    """Another session of w1's phone."""
    await scene.connected()
    await scene.connected("w2")


@case("first_report")
async def _(scene: Scene) -> None:
    await _second_device(scene)
    for session, outcome in (("w1", contacts.Received), ("w2", contacts.ReceivedCopy)):
        said = contacts.Incoming(session, PHONE, "3EB0AA", "text", "97251", "123", fields={"text": "hello"})
        assert isinstance(await contacts.receive(scene.scripts, said, keep_ms=1000), outcome)
    assert len(await scene.scripts.redis.keys(keys.first_report(PHONE, "*"))) == 1


@case("readable_elsewhere")
async def _(scene: Scene) -> None:
    await _second_device(scene)
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", fields={"text": "hello"})
    assert await contacts.receive(scene.scripts, said, keep_ms=1000)
    unread = contacts.Incoming("w2", PHONE, "3EB0AA", "", "97251", "123")
    assert not await contacts.report_undecryptable(scene.scripts, unread, reason="decrypt", keep_ms=1000)


@case("private_chat")
async def _(scene: Scene) -> None:
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", "1203@g.us")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000)
    assert not await scene.scripts.redis.exists(keys.contacts(PHONE), keys.affinity("97251"))


@case("hidden_phone")
async def _(scene: Scene) -> None:
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "", "123")
    assert await contacts.receive(scene.scripts, said, keep_ms=1000)
    assert await contacts.affinity(scene.scripts, "lid:123") == "w1"
    assert await contacts.is_known_lid(scene.scripts, "123")


@case("known_by_writing")
async def _(scene: Scene) -> None:
    sent = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", is_ours=True)
    assert await contacts.receive(scene.scripts, sent, keep_ms=1000)
    assert not await scene.scripts.redis.exists(keys.contacts(PHONE))
    assert await contacts.affinity(scene.scripts, "97251") == "w1"


@case("elsewhere_counts")
async def _(scene: Scene) -> None:
    reaction = contacts.Incoming("w1", PHONE, "3EB0AA", "reaction", "97251", "123", is_ours=True)
    text = contacts.Incoming("w1", PHONE, "3EB0AB", "text", "97251", "123", is_ours=True, counts_at_ms=5)
    for sent in (reaction, text):
        assert await contacts.receive(scene.scripts, sent, keep_ms=1000)
    assert await scene.scripts.redis.zrange(keys.sent(PHONE), 0, -1) == ["elsewhere#3EB0AB"]


@case("file_is_due")
async def _(scene: Scene) -> None:
    for name, due in (("3A01", "i_1"), ("3A02", "")):
        sent = contacts.Incoming("w1", PHONE, name, "image", "97251", "123", due_file=due)
        assert await contacts.receive(scene.scripts, sent, keep_ms=1000)
    assert await scene.scripts.redis.zrange(keys.MEDIA_DUE, 0, -1) == ["i_1"]


@case("call_once")
async def _(scene: Scene) -> None:
    call = CallReported(SessionId("w1"), Phone(PHONE), "c1", "false", Phone("97251"), "123")
    for kind, is_news in (
        (EventType.CALL_RECEIVED, True),
        (EventType.CALL_RECEIVED, False),
        (EventType.CALL_ENDED, True),
    ):
        assert await contacts.report_call(scene.scripts, kind, call, keep_ms=1000) is is_news


@case("opt_out_once")
async def _(scene: Scene) -> None:
    assert await contacts.opt_out(scene.scripts, "97251", word="STOP", via="reply")
    assert not await contacts.opt_out(scene.scripts, "97251", word="STOP", via="reply")
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 1


@case("fan_out_once")
async def _(scene: Scene) -> None:
    one = webhooks.Delivery("wh_1", "5-0", "message.sent", "{}")
    assert await webhooks.fan_out(scene.scripts, after="", until="5-0", deliveries=[one])
    assert not await webhooks.fan_out(scene.scripts, after="", until="5-0", deliveries=[one])


async def _failed(scene: Scene, mark: str) -> str:
    return await webhooks.settle(
        scene.scripts, "wh_1/5-0", mark, outcome="waiting", next_ms=0, note="HTTP_500", disable_ms=10_000
    )


@case("delivery_mark")
async def _(scene: Scene) -> None:
    one = webhooks.Delivery("wh_1", "5-0", "message.sent", "{}")
    await webhooks.fan_out(scene.scripts, after="", until="5-0", deliveries=[one])
    first = await due_items.take(scene.scripts, Due.DELIVERIES, most=1, away_ms=1000)
    await scene.clock.pass_ms(1001)
    await due_items.take(scene.scripts, Due.DELIVERIES, most=1, away_ms=1000)
    assert await _failed(scene, first.mark) == "taken_over"


@case("disable_late")
async def _(scene: Scene) -> None:
    one = webhooks.Delivery("wh_1", "5-0", "message.sent", "{}")
    await webhooks.fan_out(scene.scripts, after="", until="5-0", deliveries=[one])
    told = []
    for _ in range(3):
        taken = await due_items.take(scene.scripts, Due.DELIVERIES, most=1, away_ms=1000)
        told.append(await _failed(scene, taken.mark))
        await scene.clock.pass_ms(10_000)
    assert told == ["settled", "disabled", "settled"]


# -- outcomes that are unknown ------------------------------------------------------------------------------------


@case("in_doubt")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    assert await scene.nack(message, backoff_ms=None, doubt=Doubt.RAISED) == outbox.Became("unknown")
    assert await scene.scripts.redis.zrange(keys.UNCONFIRMED, 0, -1) == ["97251"]


@case("unsent_in_doubt")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    assert await scene.nack(message, backoff_ms=0, doubt=Doubt.RAISED) == outbox.Became("queued")
    assert await queues.cancel(scene.scripts, scene.places[message], reason="CANCELLED") == queues.Ended()
    assert await scene.status(message) == "unknown"
    assert await scene.scripts.redis.zrange(keys.UNCONFIRMED, 0, -1) == ["97251"]


async def _claimed_by_one_who_asks(scene: Scene) -> str:
    """A message that a worker holds which names its process, so it asks before it writes."""
    await scene.connected()
    message = await scene.queued()
    await scene.release(message)
    assert isinstance(await scene.claim(process="one"), tuple)
    return message


@case("unwritten_is_no_doubt")
async def _(scene: Scene) -> None:
    message = await _claimed_by_one_who_asks(scene)
    await scene.clock.pass_ms(LEASE_MS)
    assert await scene.reclaim(message) == outbox.Became("queued")
    await queues.cancel(scene.scripts, scene.places[message])
    assert await scene.status(message) == "cancelled"


@case("unwritten_attempt")
async def _(scene: Scene) -> None:
    message = await _claimed_by_one_who_asks(scene)
    assert await scene.nack(message, backoff_ms=None, doubt=Doubt.RAISED) == outbox.Became("failed")


@case("doubt")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.scripts.redis.hset(keys.message(message), "in_doubt", "1")
    assert await scene.nack(message, backoff_ms=None, doubt=Doubt.SETTLED) == outbox.Became("failed")


@case("answer_code")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    verdict = outbox.FailureVerdict(1, "REFUSED", None, answer="WA_421")
    await outbox.nack(scene.scripts, scene.places[message], epoch=1, verdict=verdict, day="20250615")
    found = await records.message(scene.scripts, message)
    assert found is not None
    assert list(records.answers_of(found).values()) == ["WA_421"]


@case("slower")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    verdict = outbox.FailureVerdict(1, "RATE_LIMITED", 30_000, slowdowns=1)
    await outbox.nack(scene.scripts, scene.places[message], epoch=1, verdict=verdict, day="20250615")
    assert await outbox.slowdowns(scene.scripts, PHONE) == 1
