"""What becomes of a message that cannot simply be sent."""

import signal
from pathlib import Path

import pytest

from tests.waiting import promised, until
from tests.worker.harness import Rig, Session, new_phone
from tests.worker.standin import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_number_without_whatsapp_is_refused_before_anything_is_sent(rig: Rig, linked: Session) -> None:
    stranger = new_phone()
    rig.world.whatsapp.unregister(stranger)
    nack = await rig.server.nacked(await linked.say(stranger, "hello?"))
    assert (nack["code"], nack["retryable"]) == ("NOT_ON_WHATSAPP", False)
    assert linked.arrivals(to=stranger) == []


@pytest.mark.parametrize(
    ("code", "word", "retryable"),
    [(463, "NO_TRUST_TOKEN", False), (475, "NEW_CHAT_CAP", False), (479, "WA_479", False), (400, "ADDRESSING", False)],
)
async def test_a_refusal_by_whatsapp_has_a_stable_code(
    rig: Rig, linked: Session, code: int, word: str, retryable: bool
) -> None:
    await rig.world.whatsapp.fault("ack_error", phone=linked.phone, code=code)
    message = await linked.say(new_phone(), "to somebody new")
    nack = await rig.server.nacked(message)
    assert (nack["code"], nack["retryable"]) == (word, retryable)
    await linked.event("MESSAGE_FAILED", messageId=message["messageId"], code=word)


async def test_a_reachout_lock_is_reported_when_it_begins_and_when_it_ends(rig: Rig, linked: Session) -> None:
    seen = len(linked.station.events)
    await rig.world.whatsapp.fault("reachout_lock", phone=linked.phone, seconds=3600)
    locked = await _limits(linked, seen, active=True)
    assert locked["type"] == "WEB_COMPANION_ONLY"
    assert locked["endsAt"] > 0
    seen = len(linked.station.events)
    await rig.world.whatsapp.clear_faults()
    await _limits(linked, seen, active=False)


async def test_a_used_up_allowance_of_new_chats_is_reported_before_the_message_that_met_it(
    rig: Rig, linked: Session
) -> None:
    friend, stranger = new_phone(), new_phone()
    seen = len(linked.station.events)
    await rig.world.whatsapp.fault("newchat_cap", phone=linked.phone, seconds=3600, total=5, used=4)
    await rig.server.acked(await linked.say(friend, "the last new chat"))
    refused = await linked.say(stranger, "one too many")
    nack = await rig.server.nacked(refused)
    assert (nack["code"], nack["retryable"]) == ("NEW_CHAT_CAP", False)
    await linked.event("MESSAGE_FAILED", messageId=refused["messageId"], code="NEW_CHAT_CAP")
    told = [event for event in linked.station.events[seen:] if event["type"] in ("ACCOUNT_LIMITS", "MESSAGE_FAILED")]
    assert told[-1]["type"] == "MESSAGE_FAILED"
    cap = told[-2]["data"]["newChatCap"]
    assert (cap["status"], cap["used"], cap["total"]) == ("CAPPED", 5, 5)
    assert cap["endsAt"] > 0
    await rig.server.acked(await linked.say(friend, "we know each other"))
    assert linked.arrivals(to=stranger) == []
    await rig.world.whatsapp.clear_faults()


async def _limits(session: Session, seen: int, *, active: bool) -> Json:
    def find() -> Json | None:
        for event in session.station.events[seen:]:
            if event["type"] == "ACCOUNT_LIMITS" and event["data"]["reachoutLock"]["active"] is active:
                lock: Json = event["data"]["reachoutLock"]
                return lock
        return None

    found: Json = await session.rig.server.until(find)
    return found


async def test_a_worker_asks_for_every_message_under_one_name_and_its_successor_under_another(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    for number in range(2):
        await rig.server.acked(await session.say(new_phone(), f"number {number}"))
    asked = session.station.processes
    assert len(asked) > 1
    assert len(set(asked)) == 1
    await session.worker.terminate()
    await session.restart()
    await until(lambda: len(set(asked)) > 1, "the successor has asked")


async def test_a_worker_that_was_frozen_does_not_write_what_it_no_longer_holds(rig: Rig) -> None:
    session, friend = rig.session(TYPING_MAX_MS="3000"), new_phone()
    await session.link()
    message = await session.say(friend, "x" * 400)
    await until(lambda: "message.claimed" in session.worker.text, "the worker has claimed it")
    session.worker.process.send_signal(signal.SIGSTOP)
    rig.server.take_back(session.id)
    session.station.waiting.clear()  # cancelled meanwhile
    session.worker.process.send_signal(signal.SIGCONT)
    await until(lambda: "message.abandoned" in session.worker.text, "the worker has given it up")
    assert message["messageId"] in session.station.renewals
    assert session.arrivals(to=friend) == []


async def test_a_message_is_not_written_while_the_server_does_not_answer(rig: Rig) -> None:
    session, friend = rig.session(TYPING_MAX_MS="1000"), new_phone()
    await session.link()
    session.station.status_after_claim = 503
    await session.say(friend, "x" * 400)
    await until(lambda: "message.abandoned" in session.worker.text, "the worker has given it up")
    assert session.arrivals(to=friend) == []


async def test_a_slow_acknowledgement_is_waited_for_and_the_lease_renewed(rig: Rig, linked: Session) -> None:
    await rig.world.whatsapp.fault("ack_delay", phone=linked.phone, seconds=2)
    await rig.world.whatsapp.fault("no_receipts", phone=linked.phone)
    message = await linked.say(new_phone(), "slow", leaseMs=1_500)
    await rig.server.acked(message)
    assert linked.station.renewals.count(message["messageId"]) >= 2


async def test_an_unanswered_message_is_given_back_as_unknown_and_a_late_proof_still_counts(rig: Rig) -> None:
    session = rig.session(ACK_TIMEOUT_MS="300")
    await session.link()
    await rig.world.whatsapp.fault("no_receipts", phone=session.phone)
    # Long after the timeout: a worker that was slow to notice that must not meet the ack first.
    await rig.world.whatsapp.fault("ack_delay", phone=session.phone, seconds=5)
    message = await session.say(new_phone(), "unknown")
    nack = await rig.server.nacked(message)
    assert (nack["code"], nack["retryable"]) == ("ACK_TIMEOUT", True)
    assert session.station.acks == []
    assert (await rig.server.acked(message))["whatsappId"] == message["whatsappId"]


async def test_a_connection_lost_while_waiting_gives_the_message_back_and_the_same_id_goes_again(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("ack_delay", phone=session.phone, seconds=60)
    await rig.world.whatsapp.fault("no_receipts", phone=session.phone)
    message = await session.say(friend, "again")
    await until(lambda: session.arrivals(to=friend), "it arrives")
    await rig.world.whatsapp.clear_faults()
    await rig.world.whatsapp.fault("drop", phone=session.phone)
    nack = await rig.server.nacked(message)
    assert (nack["code"], nack["retryable"]) == ("SOCKET_CLOSED", True)
    session.station.waiting.append(message)
    await rig.server.acked(message)
    [shown] = [entry for entry in rig.world.whatsapp.inbox(friend) if entry["id"] == message["whatsappId"]]
    assert shown["shown"] == 1


async def test_a_recipient_who_asks_for_a_message_again_at_once_gets_it(rig: Rig, tmp_path: Path) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await session.worker.terminate()
    slow_disk = tmp_path / "slow-disk.cjs"
    slow_disk.write_text("global.setImmediate = (work, ...rest) => setTimeout(work, 250, ...rest)")
    seen = len(session.station.events)
    await session.start(options=("--require", str(slow_disk)))
    await session.event("CONNECTED", after=seen)
    await rig.world.whatsapp.fault("undecryptable", phone=friend, times=1)
    await rig.server.acked(await session.say(friend, "hello"))
    await until(
        lambda: any(entry["text"] == "hello" for entry in rig.world.whatsapp.inbox(friend)),
        "it is shown after the retry",
        within_s=promised(5),
    )


async def test_media_that_is_gone_fails_for_good_and_media_elsewhere_is_never_fetched(
    rig: Rig, linked: Session
) -> None:
    gone = {"url": f"{rig.server.url}/media/nothing", "mimetype": "image/png"}
    nack = await rig.server.nacked(await rig.server.send(linked.id, new_phone(), kind="image", media=gone))
    assert (nack["code"], nack["retryable"]) == ("MEDIA_UNAVAILABLE", False)
    elsewhere = {"url": "http://example.com/a.png", "mimetype": "image/png"}
    nack = await rig.server.nacked(await rig.server.send(linked.id, new_phone(), kind="image", media=elsewhere))
    assert (nack["code"], nack["retryable"]) == ("MEDIA_UNAVAILABLE", False)


async def test_a_message_known_to_have_arrived_is_acknowledged_without_sending_it_again(
    rig: Rig, linked: Session
) -> None:
    friend = new_phone()
    message = await linked.say(friend, "once")
    await rig.server.acked(message)
    linked.station.acks.clear()
    linked.station.waiting.append(message)
    await rig.server.acked(await linked.say(friend, "next"))
    assert message["messageId"] in [entry["messageId"] for entry in linked.station.acks]
    assert len(linked.arrivals(to=friend, id=message["whatsappId"])) == 1


async def test_a_longer_text_is_typed_for_longer(rig: Rig) -> None:
    session, friend = rig.session(TYPING_MAX_MS="3000"), new_phone()
    await session.link()
    message = await session.say(friend, "x" * 200)
    await rig.server.acked(message)
    typed = next(entry for entry in rig.world.whatsapp.chatstates() if entry["to"] == friend)
    assert typed["state"] == "composing"
    assert session.arrivals(to=friend)[0]["at"] - typed["at"] >= 2  # the simulator may see it late


async def test_asked_to_stop_while_waiting_for_the_ack_it_finishes_first(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("ack_delay", phone=session.phone, seconds=0.6)
    await rig.world.whatsapp.fault("no_receipts", phone=session.phone)
    message = await session.say(friend, "last words")
    await until(lambda: session.arrivals(to=friend), "it arrives")
    assert await session.worker.terminate() == 0
    await rig.server.acked(message)


async def test_asked_to_stop_before_it_has_sent_it_hands_the_message_back(rig: Rig) -> None:
    session, friend = rig.session(TYPING_MAX_MS="60000"), new_phone()
    await session.link()
    message = await session.say(friend, "y" * 2000)
    await until(lambda: any(entry["to"] == friend for entry in rig.world.whatsapp.chatstates()), "it types")
    assert await session.worker.terminate() == 0
    nack = await rig.server.nacked(message)
    assert (nack["code"], nack["retryable"]) == ("WORKER_STOPPING", True)
    assert session.arrivals(to=friend) == []
