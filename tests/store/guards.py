"""One case per guard of the scripts: it passes with the guard and fails without it."""

from collections.abc import Awaitable, Callable
from typing import Final

from tests.store.scene import LEASE_MS, PAUSE_MS, PHONE, Scene
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.store import due_items, keys, leases, proxies, records, sessions
from wa_orchestrator.store.due_items import Due
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import admission, contacts, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place, head, layout
from wa_orchestrator.store.outcomes import Fenced, Unknown
from wa_orchestrator.store.sessions import slots

Case = Callable[[Scene], Awaitable[None]]
CASES: Final[dict[str, Case]] = {}


def case(guard: str) -> Callable[[Case], Case]:
    """Register the case of a guard."""

    def register(function: Case) -> Case:
        assert guard not in CASES
        CASES[guard] = function
        return function

    return register


# -- accept -------------------------------------------------------------------------------------------------------

KEY = admission.Idempotency("key", "hash", "fingerprint")


@case("conflict")
async def _(scene: Scene) -> None:
    await admission.accept(scene.scripts, scene.message(), scene.room(), KEY)
    other = admission.Idempotency("key", "hash", "another body")
    assert await admission.accept(scene.scripts, scene.message(), scene.room(), other) == admission.Conflict()


@case("replay")
async def _(scene: Scene) -> None:
    first = scene.message()
    await admission.accept(scene.scripts, first, scene.room(), KEY)
    again = await admission.accept(scene.scripts, scene.message(), scene.room(), KEY)
    assert again == admission.Replayed(first.id, "")


@case("opt_out")
async def _(scene: Scene) -> None:
    await scene.scripts.redis.hset(keys.OPT_OUTS, "97251", "{}")
    assert await admission.accept(scene.scripts, scene.message("97251"), scene.room()) == admission.OptedOut()


@case("queue_limit")
async def _(scene: Scene) -> None:
    await scene.accept()
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "97251")
    full = await admission.accept(scene.scripts, scene.message(), scene.room(queue_limit=1))
    assert full == admission.QueueFull(1)


@case("aside_limit")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 60_000)
    assert await scene.release(await scene.queued()) == queues.SetAside()
    full = await admission.accept(scene.scripts, scene.message("97252"), scene.room(queue_limit=1))
    assert full == admission.QueueFull(1)
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "97253")
    for count, may in enumerate(("97253", "1203@g.us"), start=1):
        known = await admission.accept(scene.scripts, scene.message(may), scene.room(queue_limit=count))
        assert isinstance(known, admission.Accepted), may


@case("day_limit")
async def _(scene: Scene) -> None:
    await scene.accept()
    assert await admission.accept(scene.scripts, scene.message(), scene.room(per_day=1)) == admission.DayFull(1)


# -- route, promote -----------------------------------------------------------------------------------------------


@case("session_exists")
async def _(scene: Scene) -> None:
    message = await scene.accept()
    assert await scene.route(message) == queues.NoSession()
    assert await scene.scripts.redis.lrange(keys.GATEWAY_JOBS, 0, -1) == [message]


@case("one_router")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    assert await scene.route(message) == queues.Gone()


@case("still_scheduled")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    assert not await queues.promote(scene.scripts, scene.places[message])


@case("not_early")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.accept(due_ms=scene.clock.now_ms + 1000)
    assert await scene.route(message) == queues.Scheduled(scene.clock.now_ms + 1000)
    assert not await queues.promote(scene.scripts, scene.places[message])


async def _deferred(scene: Scene) -> str:
    """A message for which the day has no room, until two minutes from now."""
    message = scene.message()
    room = scene.room(per_day=0, defer_to_ms=scene.clock.now_ms + 120_000)
    assert isinstance(await admission.accept(scene.scripts, message, room), admission.Accepted)
    await scene.route(message.id)
    return message.id


@case("deferred_in_time")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await _deferred(scene)
    await scene.clock.pass_ms(60_000)
    assert await queues.promote(scene.scripts, scene.places[message])


@case("deferred_turn")
async def _(scene: Scene) -> None:
    await scene.connected()
    deferred, newer = await _deferred(scene), await scene.queued()
    await scene.clock.pass_ms(120_000)
    assert await queues.promote(scene.scripts, scene.places[deferred])
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, -1) == [deferred, newer]


# -- release ------------------------------------------------------------------------------------------------------


@case("one_in_flight")
async def _(scene: Scene) -> None:
    await scene.connected()
    first, second = await scene.queued(), await scene.queued()
    assert isinstance(await scene.release(first), queues.Released)
    assert await scene.release(second) == queues.Busy(first)


@case("head")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.queued()
    second = await scene.queued()
    assert await scene.release(second) == queues.Changed()


@case("release_opt_out")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued("97251")
    await scene.scripts.redis.hset(keys.OPT_OUTS, "97251", "{}")
    assert await scene.release(message) == queues.MustEnd("OPTED_OUT")


@case("opt_out_here")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued("97251")
    await scene.scripts.redis.hset(keys.OPT_OUTS, f"{PHONE} 97251", "{}")
    assert await scene.release(message) == queues.MustEnd("OPTED_OUT")


@case("release_expired")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued(expires_ms=scene.clock.now_ms + 10)
    await scene.clock.pass_ms(10)
    assert await scene.release(message) == queues.MustEnd("EXPIRED")


@case("connected")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.scripts.redis.hset(keys.session("w1"), "status", "disconnected")
    assert await scene.release(message) == queues.Offline("disconnected")


@case("own_phone")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.scripts.redis.hset(keys.session("w1"), "phone", "972500000009")
    assert await scene.release(message) == queues.Offline("other_phone")


@case("hold")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.scripts.redis.hset(keys.HOLDS, "all", '{"until_ms": 9000000000000000}')
    assert await scene.release(message) == queues.Held("all")


@case("hours")
async def _(scene: Scene) -> None:
    await scene.connected()
    message, opens = await scene.queued(), scene.clock.now_ms + 1000
    assert await scene.release(message, open_from_ms=opens) == queues.Wait(opens, "OUTSIDE_HOURS")
    assert isinstance(await scene.release(message, open_until_ms=scene.clock.now_ms), queues.Wait)


@case("right_day")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    assert await scene.release(message, day_end_ms=scene.clock.now_ms) == queues.Changed()


@case("pause")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.ack(await scene.sending())
    second, spoke = await scene.queued(), scene.clock.now_ms
    await scene.clock.pass_ms(PAUSE_MS - 1)
    assert await scene.release(second) == queues.Wait(spoke + PAUSE_MS, "PAUSE")
    await scene.clock.pass_ms(1)
    assert isinstance(await scene.release(second), queues.Released)


@case("minute")
async def _(scene: Scene) -> None:
    await scene.connected()
    first_at = scene.clock.now_ms
    await scene.ack(await scene.sending())
    await scene.clock.pass_ms(PAUSE_MS)
    second = await scene.queued()
    assert await scene.release(second, per_minute=1) == queues.Wait(first_at + 60_000, "MINUTE_IS_FULL")
    await scene.clock.set(first_at + 60_000)
    assert isinstance(await scene.release(second, per_minute=1), queues.Released)


@case("day")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.ack(await scene.sending())
    await scene.clock.pass_ms(61_000)
    second, tomorrow = await scene.queued(), scene.clock.now_ms + 3_600_000
    full = await scene.release(second, per_day=1, day_start_ms=scene.clock.now_ms - 3_600_000, day_end_ms=tomorrow)
    assert full == queues.Wait(tomorrow, "DAY_IS_FULL")


@case("reachout_lock")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "97252")
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 1000)
    stranger, friend = await scene.queued("97251"), await scene.queued("97252")
    assert await scene.release(stranger) == queues.SetAside()
    assert isinstance(await scene.release(friend), queues.Released)


@case("cap")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.hset(keys.pace(PHONE), "cap_until", scene.clock.now_ms + 1000)
    stranger = await scene.queued("97251")
    assert await scene.release(stranger) == queues.SetAside()
    assert await queues.restore_set_aside(scene.scripts, PHONE) is None
    await scene.clock.pass_ms(1000)
    assert await queues.restore_set_aside(scene.scripts, PHONE) == 1
    assert isinstance(await scene.release(stranger), queues.Released)
    assert isinstance(await scene.claim(), tuple)
    await scene.scripts.redis.hset(keys.pace(PHONE), "cap_until", scene.clock.now_ms + 1000)
    assert await scene.confirm_write(stranger) == outbox.WriteRefused("queued", "NEW_CHAT_CAP")


@case("known_by_name")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.hset(keys.pace(PHONE), "cap_until", scene.clock.now_ms + 1000)
    message = await scene.queued("lid:123")
    scene.recipients[message] = "97251"  # its phone is known since
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "97251")
    assert isinstance(await scene.release(message), queues.Released)
    await scene.claim()
    await scene.scripts.redis.srem(keys.contacts(PHONE), "97251")
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "lid:123")
    assert isinstance(await scene.confirm_write(message), outbox.Renewed)


@case("opt_out_by_name")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued("lid:123")
    await contacts.opt_out(scene.scripts, "97251", word="", via="api")
    scene.recipients[message] = "97251"
    assert await scene.release(message) == queues.MustEnd("OPTED_OUT")


@case("limit_by_name")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued("97251")
    await scene.scripts.redis.hset(keys.pace(PHONE), "cap_until", scene.clock.now_ms + 1000)
    scene.recipients[message] = ""
    assert await scene.release(message) == queues.Changed()  # whoever saw no limit looked up no other name


@case("aside_returns")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.hset(keys.pace(PHONE), "cap_until", scene.clock.now_ms + 1000)
    aside, following = await scene.queued("97251"), await scene.queued("97251")
    assert await scene.release(aside) == queues.SetAside()
    await scene.clock.pass_ms(1000)
    assert await scene.release(following) == queues.Changed()
    assert await queues.restore_set_aside(scene.scripts, PHONE) == 1
    assert isinstance(await scene.release(aside), queues.Released)


@case("aside_in_order")
async def _(scene: Scene) -> None:
    await scene.connected()
    refused, following = await scene.queued("97251"), await scene.queued("97251")
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "97251")
    await scene.release(refused)
    await scene.claim()
    await scene.scripts.redis.hset(keys.pace(PHONE), "cap_until", scene.clock.now_ms + 60_000)
    verdict = outbox.FailureVerdict(1, "NEW_CHAT_CAP", 0, place="aside")
    await contacts.set_names(scene.scripts, "97251", "123")
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "lid:123")
    await outbox.nack(scene.scripts, scene.places[refused], epoch=1, verdict=verdict, day="20250615")
    await scene.clock.pass_ms(10_000)
    assert await scene.release(following) == queues.SetAside()
    assert not await scene.scripts.redis.exists(keys.contacts(PHONE)), "under neither name"


@case("known_in_order")
async def _(scene: Scene) -> None:
    await scene.connected()
    sent = await scene.sending("97251")
    await scene.ack(sent)
    aside, following = await scene.queued("97251"), await scene.queued("97251")
    await scene.scripts.redis.hset(keys.pace(PHONE), "cap_until", scene.clock.now_ms + 60_000)
    await scene.clock.pass_ms(10_000)
    assert await scene.release(aside) == queues.SetAside()
    await scene.ack(sent, "delivered")
    assert await scene.release(following) == queues.SetAside()


@case("lock_over")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 1000)
    stranger, later = await scene.queued("97251"), await scene.queued("97252")
    assert await scene.release(stranger) == queues.SetAside()
    assert await queues.restore_set_aside(scene.scripts, PHONE) is None
    await scene.clock.pass_ms(1000)
    assert await queues.restore_set_aside(scene.scripts, PHONE) == 1
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, -1) == [stranger, later]
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 1000)
    assert await scene.release(stranger) == queues.SetAside()
    await queues.restore_of_no_session(scene.scripts, PHONE)
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, -1) == [stranger, later]


# -- claim, renew, ack, nack, reclaim -----------------------------------------------------------------------------


@case("claim_epoch")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.release(message)
    await scene.register()
    assert await scene.claim(epoch=1) == Fenced(2)
    assert isinstance(await scene.claim(epoch=2), tuple)


@case("claim_head")
async def _(scene: Scene) -> None:
    # Two calls of a worker have both seen the same message in the outbox.
    await scene.connected()
    place = scene.places[await scene.sending()]
    assert await scene.scripts.run("claim_message", layout(place), [*head(place), 1, LEASE_MS, ""]) == ["empty"]


@case("asked")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.claim()
    assert await scene.scripts.redis.hget(keys.session("w1"), "asked_at") == str(scene.clock.now_ms)


@case("claim_again")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.release(message)
    assert isinstance(await scene.claim(process="one"), tuple)
    await scene.clock.pass_ms(LEASE_MS - 1)
    assert await scene.claim() == await scene.claim(process="two") == outbox.Empty()
    again = outbox.Claimed(1, scene.clock.now_ms)  # the same attempt
    assert await scene.claim(process="one") == (scene.places[message], again)
    await scene.clock.pass_ms(1)
    assert isinstance(await scene.reclaim(message), outbox.Alive)


@case("claim_written")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.release(message)
    await scene.claim(process="one")
    await scene.confirm_write(message)
    assert await scene.claim(process="one") == outbox.Empty()


@case("write_again")
async def _(scene: Scene) -> None:
    await scene.connected()
    message, following = await scene.sending(), await scene.queued()
    assert isinstance(await scene.confirm_write(message), outbox.Renewed)
    await contacts.opt_out(scene.scripts, scene.recipients[message], word="stop", via="test")
    assert await scene.confirm_write(message) == outbox.WriteRefused("unknown", "OPTED_OUT")
    await contacts.opt_in(scene.scripts, scene.recipients[message])
    assert isinstance(await scene.release(following), queues.Wait)  # WhatsApp may have the first: its pause counts


@case("renew_epoch")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.register()
    renewed = await outbox.renew(scene.scripts, scene.places[message], epoch=1, lease_ms=LEASE_MS)
    assert renewed == Fenced(2)


@case("renew_holder")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.connected("w2")  # a sibling whose epoch is the same
    message = await scene.sending()
    siblings = await outbox.renew(scene.scripts, Place(message, PHONE, "w2"), epoch=1, lease_ms=LEASE_MS)
    assert siblings == outbox.NotHolder("sending")
    await scene.ack(message)
    renewed = await outbox.renew(scene.scripts, scene.places[message], epoch=1, lease_ms=LEASE_MS)
    assert renewed == outbox.NotHolder("sent")


@case("ack_id")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    assert isinstance(await scene.ack(message, whatsapp_id="3EB0FF"), outbox.Mismatch)


@case("ack_monotone")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    assert await scene.ack(message, "read") == outbox.Became("read")
    assert await scene.ack(message, "delivered") == outbox.Already("read")
    assert await scene.status(message) == "read"


@case("nack_epoch")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.release(message)
    await scene.register()
    await scene.claim(epoch=2)
    assert await scene.nack(message, epoch=1) == Fenced(2)


@case("nack_holder")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.connected("w2")  # a sibling whose epoch is the same
    message = await scene.sending()
    own, scene.places[message] = scene.places[message], Place(message, PHONE, "w2")
    assert await scene.nack(message) == outbox.NotHolder("sending")
    scene.places[message] = own
    await scene.ack(message)
    assert await scene.nack(message, backoff_ms=None) == outbox.NotHolder("sent")
    assert await scene.status(message) == "sent"


@case("leased")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.ack(message)
    assert await scene.reclaim(message) == Unknown()


@case("lease_over")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.clock.pass_ms(LEASE_MS - 1)
    assert await scene.reclaim(message) == outbox.Alive(scene.clock.now_ms + 1)


@case("rearm: take_back")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.clock.pass_ms(LEASE_MS)
    assert await scene.reclaim(message) == outbox.Became("queued")
    assert await scene.release(message) == queues.Wait(scene.clock.now_ms + PAUSE_MS, "PAUSE")
    await scene.clock.pass_ms(PAUSE_MS)
    await scene.release(message)
    await scene.claim()
    await scene.register()
    assert await scene.release(message) == queues.Wait(scene.clock.now_ms + PAUSE_MS, "PAUSE")


@case("poison")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.register()  # replaced, not dead
    for epoch, status in ((2, "queued"), (3, "unknown")):
        await scene.clock.pass_ms(PAUSE_MS)
        await scene.release(message)
        await scene.claim(epoch)
        await scene.register(most_crashes=2)
        assert await scene.status(message) == status
    assert await scene.scripts.redis.zrange(keys.DEAD, 0, -1) == [message]
    following = await scene.queued()
    await scene.clock.pass_ms(PAUSE_MS)
    assert isinstance(await scene.release(following), queues.Released)


# -- cancel, retry ------------------------------------------------------------------------------------------------


@case("not_claimed")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    assert await queues.cancel(scene.scripts, scene.places[message]) == queues.TooLate("sending")


@case("expired")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued(expires_ms=scene.clock.now_ms + 10)
    assert await queues.expire(scene.scripts, scene.places[message]) == queues.Gone()
    assert await scene.status(message) == "queued"


@case("dead")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.ack(message)
    again = await queues.retry(scene.scripts, scene.places[message], to="97251")
    assert again == queues.TooLate("sent")


@case("retry_opt_out")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending("97251")
    await scene.nack(message, backoff_ms=None)
    await scene.scripts.redis.hset(keys.OPT_OUTS, "97251", "{}")
    assert await queues.retry(scene.scripts, scene.places[message], to="97251") == queues.MustEnd("OPTED_OUT")


@case("mark")
async def _(scene: Scene) -> None:
    await scene.connected()
    taken = await due_items.take(scene.scripts, Due.PHONES, most=10, away_ms=1000)
    assert taken.items == (PHONE,)
    await queues.wake(scene.scripts, PHONE)
    await due_items.settle(scene.scripts, Due.PHONES, PHONE, taken.mark, next_ms=None)
    assert (await due_items.take(scene.scripts, Due.PHONES, most=10, away_ms=1000)).items == (PHONE,)


# -- sessions -----------------------------------------------------------------------------------------------------


@case("new")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    again = await sessions.create(scene.scripts, sessions.NewSession("w1", candidates=["p1"]), per_proxy=4, per_phone=4)
    assert again == sessions.Exists()


@case("phone_limit")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    second = sessions.NewSession("w2", phone=PHONE, candidates=["p1"])
    assert await sessions.create(scene.scripts, second, per_proxy=4, per_phone=1) == sessions.PhoneFull(1)


@case("siblings_seen")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    await scene.proxy("p2")
    blind = sessions.NewSession("w2", phone=PHONE, siblings=0, candidates=["p2"])
    assert await sessions.create(scene.scripts, blind, per_proxy=4, per_phone=4) == sessions.Changed()


@case("room")
async def _(scene: Scene) -> None:
    made = await sessions.create(scene.scripts, sessions.NewSession("w1"), per_proxy=4, per_phone=4)
    assert made == sessions.NoRoom()


@case("slot")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    second = sessions.NewSession("w2", candidates=["p1"])
    assert await sessions.create(scene.scripts, second, per_proxy=1, per_phone=4) == sessions.NoRoom()


@case("slot_healthy")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    await proxies.mark(scene.scripts, "p1", version=1, status="BAD", reason="CHECK_FAILED", fields={})
    first = sessions.NewSession("w1", candidates=["p1"])
    assert await sessions.create(scene.scripts, first, per_proxy=4, per_phone=4) == sessions.NoRoom()


@case("advance_epoch")
async def _(scene: Scene) -> None:
    await scene.connected()
    version = int(await scene.scripts.redis.hget(keys.session("w1"), "version") or 0)
    await scene.scripts.redis.hset(keys.session("w1"), "epoch", 2)
    step = sessions.Transition(version, "failed", "BANNED", "BANNED", epoch=1)
    assert await sessions.advance(scene.scripts, "w1", step) == Fenced(2)


@case("unlinked_once")
async def _(scene: Scene) -> None:
    await scene.connected()
    for reason in ("LOGGED_OUT", "WORKER_CRASHED"):
        version = int(await scene.scripts.redis.hget(keys.session("w1"), "version") or 0)
        step = sessions.Transition(version, "pending", reason, "LOGGED_OUT", fields={"unlinked_at": 7})
        await sessions.advance(scene.scripts, "w1", step)
    told = [fields["type"] for _, fields in await scene.scripts.redis.xrange(keys.EVENTS)]
    assert told.count("session.unlinked") == 1


@case("version")
async def _(scene: Scene) -> None:
    await scene.connected()
    stale = sessions.Transition(0, "failed", "BANNED", "BANNED")
    assert await sessions.advance(scene.scripts, "w1", stale) == sessions.Changed()


@case("leader")
async def _(scene: Scene) -> None:
    await scene.connected()
    other = await sessions.register(scene.scripts, "w1", phone=PHONE, lease="other 7", day="20250615")
    assert other == sessions.NotLeader()


@case("register_seen")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.sending()
    unseen = await sessions.register(scene.scripts, "w1", phone="", lease=scene.lease, day="20250615")
    # The caller looked at another phone, so it saw nothing in flight there; nothing may be taken back blindly.
    assert unseen == sessions.Registered(2)
    await scene.scripts.redis.hset(keys.pace(""), "in_flight", "m_somebody")
    place_free = await scene.scripts.run(
        "register_worker",
        [*_layout_of_nobody(), keys.lease("control")],
        ["", "", "w1", scene.lease],
    )
    assert place_free == ["changed"]


def _layout_of_nobody() -> list[str]:
    return layout(Place("", "", "w1"))


@case("take_back")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await scene.register()
    assert await scene.status(message) == "queued"
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, 0) == [message]


@case("bind_epoch")
async def _(scene: Scene) -> None:
    await scene.connected()
    late = slots.Binding(0, PHONE, "p1", "p1", await scene.version())
    assert await slots.bind(scene.scripts, "w1", late, per_proxy=4, per_phone=4) == Fenced(1)


@case("note_exists")
async def _(scene: Scene) -> None:
    await scene.connected()
    await sessions.remove(scene.scripts, "w1", proxy="p1", phone=PHONE)
    assert not await sessions.update(scene.scripts, "w1", {"last_ping_at": 1})
    assert not await scene.scripts.redis.exists(keys.session("w1"))


@case("bind_seen")
async def _(scene: Scene) -> None:
    await scene.connected()
    blind = slots.Binding(1, PHONE, "", "p1", await scene.version())
    assert await slots.bind(scene.scripts, "w1", blind, per_proxy=4, per_phone=4) == sessions.Changed()


@case("bind_phone_limit")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    await sessions.create(scene.scripts, sessions.NewSession("w2", candidates=["p1"]), per_proxy=4, per_phone=4)
    await scene.register("w2", phone="")
    second = slots.Binding(1, PHONE, "p1", "p1", await scene.version("w2"), 1)
    assert await slots.bind(scene.scripts, "w2", second, per_proxy=4, per_phone=1) == sessions.PhoneFull(1)


async def _relinked(scene: Scene, phone: str, was: str) -> object:
    """`w1` reports another phone than before, after somebody saw it with `was`."""
    binding = slots.Binding(1, phone, "", "p1", await scene.version(), was=was)
    return await slots.bind(scene.scripts, "w1", binding, per_proxy=4, per_phone=4)


async def _left(scene: Scene) -> str:
    return str(await scene.scripts.redis.hget(keys.session("w1"), "left_phone") or "")


@case("bind_takes_all")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    await scene.proxy("p2")
    await sessions.create(scene.scripts, sessions.NewSession("w2", candidates=["p2"]), per_proxy=1, per_phone=4)
    await scene.register("w2", phone="")
    binding = slots.Binding(1, PHONE, "p1", "p2", await scene.version("w2"), others=1, followers=1)
    assert await slots.bind(scene.scripts, "w2", binding, per_proxy=1, per_phone=4) == slots.Waits()
    assert await scene.scripts.redis.get(keys.sticky(PHONE)) == "p1"
    assert await _assigned(scene) == {"p1": {"w1"}, "p2": {"w2"}}  # until its worker has ended


@case("bind_was")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    assert await _relinked(scene, "97252", was="97253") == sessions.Changed()
    assert await scene.scripts.redis.smembers(keys.sessions_of_phone(PHONE)) == {"w1"}


@case("bind_version")
async def _(scene: Scene) -> None:
    await scene.connected()
    stale = slots.Binding(1, PHONE, "p1", "p1", await scene.version() - 1)
    assert await slots.bind(scene.scripts, "w1", stale, per_proxy=4, per_phone=4) == sessions.Changed()


@case("bind_others")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    await sessions.create(scene.scripts, sessions.NewSession("w2", candidates=["p1"]), per_proxy=4, per_phone=4)
    await scene.register("w2", phone="")
    alone = slots.Binding(1, PHONE, "p1", "p1", await scene.version("w2"), others=0)
    assert await slots.bind(scene.scripts, "w2", alone, per_proxy=4, per_phone=4) == sessions.Changed()
    assert await scene.scripts.redis.smembers(keys.sessions_of_phone(PHONE)) == {"w1"}


@case("code_used")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    await sessions.update(scene.scripts, "w1", {"code_at": 1})
    await _relinked(scene, "97252", was=PHONE)
    assert not await scene.scripts.redis.hexists(keys.session("w1"), "code_at")


@case("bind_leaves")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    assert await _relinked(scene, "97252", was=PHONE) == slots.Bound("first")
    assert not await scene.scripts.redis.exists(keys.sessions_of_phone(PHONE))
    assert await _left(scene) == PHONE
    assert await _relinked(scene, "97253", was="97252") == slots.Bound("first")
    assert await _left(scene) == f"{PHONE} 97252"


@case("left_phone_seen")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    await _relinked(scene, "97252", was=PHONE)
    await _relinked(scene, "97253", was="97252")
    await slots.clear_left_phone(scene.scripts, "w1", PHONE)
    assert await _left(scene) == f"{PHONE} 97252"
    await slots.clear_left_phone(scene.scripts, "w1", f"{PHONE} 97252")
    assert await _left(scene) == ""


async def _moved(scene: Scene) -> None:
    """`w1` is linked on p1 to a phone whose own proxy is p2, and moves there; its worker still runs."""
    for name in ("p1", "p2"):
        await scene.proxy(name)
    await sessions.create(scene.scripts, sessions.NewSession("w1", candidates=["p1"]), per_proxy=1, per_phone=4)
    await scene.register("w1", phone="")
    await scene.scripts.redis.set(keys.sticky(PHONE), "p2")
    binding = slots.Binding(1, PHONE, "p2", "p1", await scene.version())
    moved = await slots.bind(scene.scripts, "w1", binding, per_proxy=1, per_phone=4)
    assert moved == slots.Moved("p2")
    second = sessions.NewSession("w2", candidates=["p1"])
    assert await sessions.create(scene.scripts, second, per_proxy=1, per_phone=4) == sessions.NoRoom()


async def _assigned(scene: Scene) -> dict[str, set[str]]:
    return {proxy.id: set(proxy.sessions) for proxy in await records.proxies(scene.scripts)}


@case("bind_keeps_slot")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    for name in ("p2", "p3"):
        await scene.proxy(name)
    other = slots.Move("w1", "p1", PHONE, ProxyReason.PROXY_FAILED, ["p2"])
    assert await slots.move(scene.scripts, other, per_proxy=4) == slots.Moved("p2")
    await scene.scripts.redis.set(keys.sticky(PHONE), "p3")  # its worker still runs on p1
    binding = slots.Binding(1, PHONE, "p3", "p2", await scene.version())
    assert await slots.bind(scene.scripts, "w1", binding, per_proxy=4, per_phone=4) == slots.Moved("p3")
    assert await _assigned(scene) == {"p1": {"w1"}, "p2": set(), "p3": {"w1"}}


@case("bind_keeps_slot_back")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    for name in ("p2", "p3"):
        await scene.proxy(name)
    for old, new in (("p1", "p2"), ("p2", "p1")):
        move = slots.Move("w1", old, PHONE, ProxyReason.PROXY_FAILED, [new])
        assert await slots.move(scene.scripts, move, per_proxy=4) == slots.Moved(new)
    await scene.scripts.redis.set(keys.sticky(PHONE), "p3")  # its worker has run on p1 all the time
    binding = slots.Binding(1, PHONE, "p3", "p1", await scene.version())
    assert await slots.bind(scene.scripts, "w1", binding, per_proxy=4, per_phone=4) == slots.Moved("p3")
    assert await _assigned(scene) == {"p1": {"w1"}, "p2": set(), "p3": {"w1"}}


@case("release_slot_seen")
async def _(scene: Scene) -> None:
    await _moved(scene)
    await scene.scripts.run("release_slot", [keys.session("w1"), keys.sessions_of_proxy("p2")], ["w1", "p2"])
    assert await _assigned(scene) == {"p1": {"w1"}, "p2": {"w1"}}
    await slots.release(scene.scripts, "w1")
    assert await _assigned(scene) == {"p1": set(), "p2": {"w1"}}


@case("release_slot_back")
async def _(scene: Scene) -> None:
    await _moved(scene)
    back = slots.Move("w1", "p2", PHONE, ProxyReason.PROXY_FAILED, ["p1"])
    assert await slots.move(scene.scripts, back, per_proxy=4) == slots.Moved("p1")
    await slots.release(scene.scripts, "w1")
    assert await _assigned(scene) == {"p1": {"w1"}, "p2": set()}


@case("failover_seen")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    await scene.proxy("p2")
    stale = slots.Move("w1", "p9", PHONE, ProxyReason.PROXY_FAILED, ["p2"])
    assert await slots.move(scene.scripts, stale, per_proxy=4) == sessions.Changed()


@case("move_version")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    before = await records.session(scene.scripts, "w1")
    assert before is not None
    idle = slots.Move("w1", "p1", PHONE, ProxyReason.GAVE_WAY, version=before.version - 1)
    assert await slots.move(scene.scripts, idle, per_proxy=4) == sessions.Changed()
    assert await _assigned(scene) == {"p1": {"w1"}}


@case("keep_old_slot")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    await scene.proxy("p2")
    move = slots.Move("w1", "p1", PHONE, ProxyReason.PROXY_FAILED, ["p2"])
    assert await slots.move(scene.scripts, move, per_proxy=4) == slots.Moved("p2")
    assert await _assigned(scene) == {"p1": {"w1"}, "p2": {"w1"}}
    await slots.release(scene.scripts, "w1")
    assert await _assigned(scene) == {"p1": set(), "p2": {"w1"}}


@case("free_unused_slot")
async def _(scene: Scene) -> None:
    await _moved(scene)  # its worker still runs on p1
    await scene.proxy("p3")
    on = slots.Move("w1", "p2", PHONE, ProxyReason.PROXY_FAILED, ["p3"])
    assert await slots.move(scene.scripts, on, per_proxy=4) == slots.Moved("p3")
    assert await _assigned(scene) == {"p1": {"w1"}, "p2": set(), "p3": {"w1"}}


@case("move_not_given")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    await scene.proxy("p2")
    given = sessions.NewSession("w1", candidates=["p1"], fields=records.SessionChanges(proxy_given="given"))
    await sessions.create(scene.scripts, given, per_proxy=4, per_phone=4)
    await slots.move(scene.scripts, slots.Move("w1", "p1", "", ProxyReason.DRAINED, ["p2"]), per_proxy=4)
    moved = await records.session(scene.scripts, "w1")
    assert moved is not None
    assert (moved.proxy, moved.proxy_given) == ("p2", "")


@case("remove_seen")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    assert await sessions.remove(scene.scripts, "w1", proxy="p9", phone=PHONE) == sessions.Changed()


@case("last_proxy")
async def _(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    await sessions.remove(scene.scripts, "w1", proxy="p1", phone=PHONE)
    assert await sessions.last_proxy(scene.scripts, "w1") == "p1"


@case("outbox_empty")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    message = await scene.queued()
    await scene.release(message)
    assert await sessions.remove(scene.scripts, "w1", proxy="p1", phone=PHONE) == sessions.InFlight(message)


@case("directory_epoch")
async def _(scene: Scene) -> None:
    # Redis has lost its data, and the session was made again: its directory knows a higher epoch.
    await scene.connected("w1")
    for above, epoch in ((7, 8), (3, 9)):
        made = await sessions.register(scene.scripts, "w1", phone=PHONE, lease=scene.lease, day="20250615", above=above)
        assert made == sessions.Registered(epoch)


@case("epoch_floor")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    await scene.register("w1")
    await sessions.remove(scene.scripts, "w1", proxy="p1", phone=PHONE)
    for name in ("w1", "w2"):  # whoever is made next, and in whatever order they go
        await sessions.create(scene.scripts, sessions.NewSession(name, candidates=["p1"]), per_proxy=4, per_phone=4)
    assert await scene.register("w1", phone="") == sessions.Registered(3)
    await sessions.remove(scene.scripts, "w2", proxy="p1", phone="")
    await sessions.remove(scene.scripts, "w1", proxy="p1", phone="")
    await sessions.create(scene.scripts, sessions.NewSession("w1", candidates=["p1"]), per_proxy=4, per_phone=4)
    assert await scene.register("w1", phone="") == sessions.Registered(4)


# -- proxies, limits ----------------------------------------------------------------------------------------------


@case("known_proxy")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    await proxies.mark(scene.scripts, "p1", version=1, status="BAD", reason="CHECK_FAILED", fields={})
    url = "socks5h://p1.example.com"
    assert not await proxies.add(scene.scripts, "p1", url=url, masked="p1", origin="environment")


@case("proxy_version")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    stale = await proxies.mark(scene.scripts, "p1", version=7, status="BAD", reason="CHECK_FAILED", fields={})
    assert stale == proxies.Changed()


@case("outage_known")
async def _(scene: Scene) -> None:
    assert await proxies.begin_outage(scene.scripts, failing=2, healthy=3)
    assert not await proxies.begin_outage(scene.scripts, failing=3, healthy=3)
    assert await proxies.outage_began_ms(scene.scripts) == scene.clock.now_ms


@case("outage_ended")
async def _(scene: Scene) -> None:
    assert not await proxies.end_outage(scene.scripts)


@case("inventory_known")
async def _(scene: Scene) -> None:
    for _ in range(2):
        await proxies.report_inventory(scene.scripts, '{"free": 3}')
    assert len(await event_stream.read(scene.scripts, most=10)) == 1


@case("inventory_enough")
async def _(scene: Scene) -> None:
    await proxies.report_inventory(scene.scripts, "")
    assert await event_stream.read(scene.scripts, most=10) == []


@case("proxy_empty")
async def _(scene: Scene) -> None:
    await scene.connected("w1")
    assert await proxies.remove(scene.scripts, "p1") == proxies.InUse(1)


@case("rate")
async def _(scene: Scene) -> None:
    async def call() -> leases.Allowed | leases.Limited:
        return leases.read_rate(await scene.scripts.run("spend_rate", [keys.rate("key")], [100, 2, 1]))

    assert [await call(), await call(), await call()] == [leases.Allowed(1), leases.Allowed(0), leases.Limited(100)]
    await scene.clock.pass_ms(100)
    assert await call() == leases.Allowed(0)


@case("lease_free")
async def _(scene: Scene) -> None:
    await leases.acquire_lease(scene.scripts, "job", owner="one", lease_ms=60_000)
    assert isinstance(await leases.acquire_lease(scene.scripts, "job", owner="two", lease_ms=60_000), leases.LeaseTaken)


@case("lease_length")
async def _(scene: Scene) -> None:
    # Redis' clock was set back by ten minutes: what was a lease of a minute lasts for eleven.
    await leases.acquire_lease(scene.scripts, "job", owner="dead", lease_ms=660_000)
    taken = await leases.acquire_lease(scene.scripts, "job", owner="two", lease_ms=60_000)
    assert isinstance(taken, leases.LeaseTaken)
    assert taken.left_ms <= 60_000


@case("lease_owner")
async def _(scene: Scene) -> None:
    first = await leases.acquire_lease(scene.scripts, "job", owner="one", lease_ms=60_000)
    await leases.release_lease(scene.scripts, "job", leases.Holding("two 9"))
    assert await leases.acquire_lease(scene.scripts, "job", owner="one", lease_ms=60_000) == first
    assert isinstance(await leases.acquire_lease(scene.scripts, "job", owner="two", lease_ms=60_000), leases.LeaseTaken)
