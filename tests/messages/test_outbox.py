"""Worker outbox: claim, renew, ack, nack, long polling, commands and media."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import DAY_MS, NOON, settle
from tests.messages.conftest import PHONE, MessageApi
from tests.waiting import PATIENCE_S, promised, until
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.messages import uploads
from wa_orchestrator.orchestrator.backups import journal_file
from wa_orchestrator.orchestrator.workers import command_calls, tokens
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import outbox


async def test_a_worker_claims_what_was_released_and_acknowledges_it(api: MessageApi) -> None:
    message = await api.released(to="97251000001")
    worker = api.worker()
    claimed = await worker.claim()
    assert claimed == {
        "messageId": message,
        "whatsappId": "3EB0" + message[2:].upper(),
        "to": "97251000001",
        "kind": "text",
        "text": "text 1",
        "attempt": 1,
        "leaseMs": 120_000,
    }
    assert await api.scenario.status(message) == "sending"
    assert (await worker.ack(claimed)).json() == {"status": "sent"}
    assert (await worker.ack(claimed)).json() == {"status": "sent"}


async def test_a_worker_that_waits_is_answered_when_the_server_stops(api: MessageApi) -> None:
    waiting = asyncio.create_task(api.worker().claim(wait_ms=20_000))
    await _someone_waits(api)
    begun = time.monotonic()
    await api.signals.close()
    assert await waiting is None
    assert await api.worker().claim(wait_ms=20_000) is None
    assert time.monotonic() - begun < promised(2)  # and not after the 20 s that they would wait


async def test_an_empty_outbox_is_a_204(api: MessageApi) -> None:
    assert (await api.worker().call("claim", {"waitMs": 0})).status_code == 204


async def test_a_waiting_worker_gets_a_message_the_moment_it_is_released(api: MessageApi) -> None:
    waiting = asyncio.create_task(api.worker().claim(wait_ms=20_000))
    await _someone_waits(api)
    begun = time.monotonic()
    message = await api.released()
    claimed = await waiting
    assert claimed is not None
    assert claimed["messageId"] == message
    assert time.monotonic() - begun < promised(1)


async def test_a_worker_that_waited_before_its_session_had_a_phone_gets_what_is_released_to_it_at_once(
    api: MessageApi,
) -> None:
    await api.context.redis.hset(keys.session("w1"), "phone", "")
    waiting = asyncio.create_task(api.worker().claim(wait_ms=20_000))
    await _someone_waits(api)
    await api.context.redis.hset(keys.session("w1"), "phone", PHONE)
    message = await api.released()
    claimed = await waiting
    assert claimed is not None
    assert claimed["messageId"] == message


async def _someone_waits(api: MessageApi) -> None:
    async def waits() -> bool:
        return "w1" in api.signals._waiting

    await until(waits, "the worker waits")
    await api.signals.ready()


async def test_a_hundred_waiting_workers_share_one_connection_and_each_gets_only_its_own(api: MessageApi) -> None:
    phones = {f"s{n}": f"97250001{n:04d}" for n in range(100)}
    for session, phone in phones.items():
        await api.scenario.connect(session, phone)
    waiting = {name: asyncio.create_task(api.worker(name).claim(wait_ms=20_000)) for name in phones}

    async def everybody_waits() -> bool:
        return len(api.signals._waiting) == 100

    await until(everybody_waits, "everybody waits")
    await api.signals.ready()
    subscribed: Any = await api.context.redis.pubsub_numsub(keys.OUTBOX_SIGNAL)
    assert subscribed == [(keys.OUTBOX_SIGNAL, 1)]
    sent = {name: await api.scenario.accept(name, phone) for name, phone in phones.items()}
    await settle(api.scenario.dispatcher())
    claimed = {name: await task for name, task in waiting.items()}
    assert {name: found["messageId"] for name, found in claimed.items() if found} == sent


async def test_a_second_worker_for_a_session_fences_the_first(api: MessageApi) -> None:
    await api.released()
    old = api.worker()
    await api.scenario.register("w1", PHONE)
    for path in ("claim", "m_000000000000000001/nack", "m_000000000000000001/renew"):
        body = {"code": "408", "error": "", "retryable": True} if path.endswith("nack") else {}
        answer = await old.call(path, body)
        assert answer.status_code == 409
        assert answer.json()["code"] == answer.json()["error"]["code"] == "FENCED"
    assert await api.worker().claim() is not None


async def test_a_worker_that_is_about_to_write_is_told_that_its_recipient_opted_out_meanwhile(api: MessageApi) -> None:
    message, worker = await api.released(to="97251000001"), api.worker()
    assert await worker.claim()
    added = await api.client.post("/api/v1/opt-outs", json={"phone": "97251000001"})
    assert added.is_success, added.text
    refused = await worker.call(f"{message}/renew", {"beforeWrite": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "WRITE_REFUSED")
    assert await api.scenario.status(message) == "cancelled"


async def test_a_worker_may_write_only_what_the_journal_beside_the_backups_names(api: MessageApi) -> None:
    message, worker = await api.released(), api.worker()
    assert await worker.claim()
    journal = api.context.settings.backups_dir / journal_file.FILE
    assert not journal.exists()
    assert (await worker.call(f"{message}/renew")).status_code == 200
    assert not journal.exists()  # it still types
    assert (await worker.call(f"{message}/renew", {"beforeWrite": True})).status_code == 200
    assert journal_file.read(journal, "0").trace(message)[0] == "written"


async def test_while_the_journal_cannot_be_written_nothing_is_and_then_it_goes_on_by_itself(
    api: MessageApi, clock: Clock
) -> None:
    message, worker = await api.released(), api.worker()
    assert await worker.claim()
    in_the_way = api.context.settings.backups_dir
    in_the_way.touch()  # no directory can be made there
    refused = await worker.call(f"{message}/renew", {"beforeWrite": True})
    assert (refused.status_code, refused.json()["error"]["reason"]) == (409, "HELD")
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "queued"
    in_the_way.unlink()
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    assert (await worker.claim() or {})["messageId"] == message
    assert (await worker.call(f"{message}/renew", {"beforeWrite": True})).status_code == 200


@pytest.mark.parametrize("hold", [{"all": True}, {"sessionId": "w1"}, {"group": "north"}])
async def test_a_hold_keeps_back_what_a_worker_is_about_to_write_and_does_not_disturb_what_it_wrote(
    api: MessageApi, clock: Clock, hold: dict[str, Any]
) -> None:
    await api.context.redis.hset(keys.session("w1"), "label", "north")
    message, worker = await api.released(), api.worker()
    assert await worker.claim()
    assert (await worker.call(f"{message}/renew", {"beforeWrite": True})).status_code == 200
    held = await api.client.post("/api/anti-ban/holds", json=hold)
    assert held.status_code == 201, held.text
    assert (await worker.call(f"{message}/renew")).status_code == 200  # it waits for WhatsApp's ack
    assert (await worker.call(f"{message}/renew", {"beforeWrite": True})).status_code == 409
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "queued"
    await api.client.delete(f"/api/anti-ban/holds/{held.json()['id']}")
    await settle(api.scenario.dispatcher())
    assert await worker.claim() is None  # WhatsApp may have it: the pause counts
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    assert await worker.claim()


async def test_nothing_is_written_after_closing_time_although_it_was_claimed_before(
    api: MessageApi, clock: Clock
) -> None:
    message, worker = await api.released(), api.worker()
    assert await worker.claim()
    limits = await api.client.put("/api/anti-ban/sessions/w1/limits", json={"opens": "09:00", "closes": "12:00"})
    assert limits.is_success, limits.text
    assert (await worker.call(f"{message}/renew", {"beforeWrite": True})).json()["error"]["reason"] == "OUTSIDE_HOURS"
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "queued"


async def test_an_ack_of_a_fenced_worker_counts(api: MessageApi) -> None:
    message = await api.released()
    old = api.worker()
    claimed = await old.claim()
    assert claimed is not None
    await api.scenario.register("w1", PHONE)
    assert await api.scenario.status(message) == "queued"
    assert (await old.ack(claimed)).status_code == 200
    assert await api.scenario.status(message) == "sent"


async def test_another_sessions_token_is_refused(api: MessageApi) -> None:
    await api.scenario.connect("w2", "972500000002")
    await api.released()
    assert (await api.worker("w2").call("claim", to="w1")).status_code == 403
    assert await api.worker().claim() is not None


async def test_a_worker_whose_claim_got_no_answer_gets_the_message_when_it_asks_again(api: MessageApi) -> None:
    message = await api.released()
    lost = await api.worker().claim(process="p1")
    assert await api.worker().claim() is None  # an earlier worker does not say who it is
    assert await api.worker().claim(process="p2") is None  # restarted: it may not send before the pause is over
    assert await api.worker().claim(process="p1") == lost
    may_write = await api.worker().call(f"{message}/renew", {"beforeWrite": True})
    assert may_write.status_code == 200
    assert await api.worker().claim(process="p1") is None  # it may have been written


async def test_a_claim_without_a_valid_token_is_refused(api: MessageApi) -> None:
    await api.released()
    address = "/api/worker/sessions/w1/outbox/claim"
    for token in ("", "wwt_w1.1.00", "nonsense"):
        answer = await api.client.post(address, json={}, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401


@pytest.mark.parametrize(
    ("code", "reason", "outcome"),
    [
        ("WA_500", "SERVER_ERROR", "failed"),
        ("LOOKUP_FAILED", "CONNECTION_LOST", "failed"),
        ("ACK_TIMEOUT", "NO_ACK", "unknown"),
        ("SOCKET_CLOSED", "CONNECTION_LOST", "unknown"),
        ("SEND_FAILED", "UNKNOWN", "unknown"),
    ],
)
async def test_after_three_attempts_a_message_that_was_refused_has_failed_and_one_without_an_answer_is_unknown(
    api: MessageApi, clock: Clock, code: str, reason: str, outcome: str
) -> None:
    message = await api.released()
    worker = api.worker()
    for attempt, status in ((1, "queued"), (2, "queued"), (3, outcome)):
        claimed = await worker.claim()
        assert claimed is not None
        assert claimed["attempt"] == attempt
        assert (await worker.nack(claimed, code)).json() == {"status": status, "reason": reason}
        await settle(api.scenario.dispatcher())
        assert await worker.claim() is None  # the backoff
        await clock.pass_ms(30_000)
        await settle(api.scenario.dispatcher())
    assert await api.scenario.reason(message) == reason
    assert [event["message"] for event in await api.scenario.events(f"message.{outcome}")] == [message]
    assert await api.context.redis.zrange(keys.DEAD, 0, -1) == [message]
    assert await api.context.redis.hgetall(keys.stats("w1", "20250615")) == {outcome: "1"}


async def test_the_very_code_of_each_failed_attempt_is_kept_with_its_entry_of_the_timeline(
    api: MessageApi, clock: Clock
) -> None:
    codes = ["WA_487", "SEND_FAILED", "421"]
    message = await unconfirmed(api, clock, *codes)
    found = await records.message(api.context.scripts, message)
    assert found is not None
    ends = [at for at, _, note in await records.timeline(api.context.scripts, message) if note == "UNKNOWN"]
    assert records.answers_of(found) == dict(zip(ends, ["WA_487", "SEND_FAILED", "WA_421"], strict=True))


async def test_of_many_failed_attempts_the_newest_codes_are_kept(api: MessageApi, clock: Clock) -> None:
    message = await api.released()
    await api.context.redis.hset(
        keys.message(message), "answers", " ".join(f"{1_000_000 + n}:WA_503" for n in range(300))
    )
    claimed = await api.worker().claim()
    assert claimed is not None
    await api.worker().nack(claimed, "WA_487")
    found = await records.message(api.context.scripts, message)
    assert found is not None
    answers = list(records.answers_of(found).values())
    assert (answers[-1], set(answers[:-1])) == ("WA_487", {"WA_503"})
    assert len(found.answers) <= 2_000


async def test_words_that_a_worker_sends_instead_of_a_code_are_not_kept(api: MessageApi) -> None:
    message = await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None
    await api.worker().nack(claimed, "Dear Ms Cohen: 1")
    found = await records.message(api.context.scripts, message)
    assert found is not None
    assert found.answers == ""


@pytest.mark.parametrize(("code", "reason"), [("WA_429", "RATE_LIMITED"), ("WA_503", "OVERLOADED")])
async def test_when_whatsapp_asks_for_less_the_phone_slows_down_and_no_message_dies(
    api: MessageApi, clock: Clock, code: str, reason: str
) -> None:
    message = await api.released()
    worker = api.worker()
    pauses = []
    for _ in range(8):
        claimed = await worker.claim()
        assert claimed is not None
        assert (await worker.nack(claimed, code)).json() == {"status": "queued", "reason": reason}
        pace = await records.phone_pace(api.context.scripts, PHONE, since_ms=0)
        pauses.append(pace.silent_until - clock.now_ms)
        await clock.set(pace.silent_until)
        await settle(api.scenario.dispatcher())
    assert all(
        0.75 * mean <= pause <= 1.25 * mean for mean, pause in zip((30_000, 60_000, 120_000), pauses, strict=False)
    )
    assert len(await api.scenario.events("session.slowed_down")) == 1
    claimed = await worker.claim()
    assert claimed is not None
    await worker.ack(claimed)
    assert await api.scenario.status(message) == "sent"
    assert await outbox.slowdowns(api.context.scripts, PHONE) == 0


async def unconfirmed(api: MessageApi, clock: Clock, *codes: str) -> str:
    """A message whose attempts ended with these codes; its id."""
    message = await api.released()
    for code in codes:
        claimed = await api.worker().claim()
        assert claimed is not None
        await api.worker().nack(claimed, code)
        await clock.pass_ms(30_000)
        await settle(api.scenario.dispatcher())
    return message


async def test_a_message_that_may_have_arrived_at_any_attempt_is_not_called_failed(
    api: MessageApi, clock: Clock
) -> None:
    message = await unconfirmed(api, clock, "ACK_TIMEOUT", "WA_500", "WA_500")
    assert await api.scenario.status(message) == "unknown"


async def test_a_message_that_nobody_can_have_got_has_failed_whatever_was_before(api: MessageApi, clock: Clock) -> None:
    message = await unconfirmed(api, clock, "ACK_TIMEOUT", "NOT_ON_WHATSAPP")
    assert await api.scenario.status(message) == "failed"


async def test_a_late_acknowledgement_settles_a_message_whose_outcome_was_unknown(
    api: MessageApi, clock: Clock
) -> None:
    message = await unconfirmed(api, clock, "ACK_TIMEOUT", "ACK_TIMEOUT", "ACK_TIMEOUT")
    assert await api.context.redis.zrange(keys.UNCONFIRMED, 0, -1) == ["97251000001"]
    await api.worker().ack({"messageId": message, "whatsappId": "3EB0" + message[2:].upper()})
    assert await api.scenario.status(message) == "sent"
    assert await api.context.redis.exists(keys.DEAD, keys.UNCONFIRMED) == 0


async def test_attempts_that_were_handed_back_do_not_count(api: MessageApi, clock: Clock) -> None:
    await api.released()
    worker = api.worker()
    for _ in range(5):
        claimed = await worker.claim()
        assert claimed is not None
        assert (await worker.nack(claimed, "WORKER_STOPPING")).json()["status"] == "queued"
        await clock.pass_ms(30_000)
        await settle(api.scenario.dispatcher())
    claimed = await worker.claim()
    assert claimed is not None
    assert (await worker.nack(claimed, "ACK_TIMEOUT")).json()["status"] == "queued"


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("NOT_ON_WHATSAPP", "failed", "NOT_ON_WHATSAPP"),
        ("REACHOUT_LOCKED", "failed", "REACHOUT_LOCKED"),
        ("NEW_CHAT_CAP", "queued", "NEW_CHAT_CAP"),
        ("WA_475", "queued", "NEW_CHAT_CAP"),
        ("WA_401", "queued", "LOGGED_OUT"),
        ("WA_403", "queued", "BANNED"),
        ("440", "queued", "REPLACED_ELSEWHERE"),
        ("WA_479", "queued", "STALE_DEVICES"),
        ("SOMETHING_NEW", "queued", "UNKNOWN"),
    ],
)
async def test_what_a_code_means_for_the_message(api: MessageApi, code: str, status: str, reason: str) -> None:
    message = await api.released()
    worker = api.worker()
    claimed = await worker.claim()
    assert claimed is not None
    assert (await worker.nack(claimed, code)).json() == {"status": status, "reason": reason}
    assert await api.scenario.status(message) == status


@pytest.mark.parametrize(("code", "minute_later"), [("WA_401", "scheduled"), ("WA_403", "queued")])
async def test_a_session_that_must_stop_gets_no_messages_and_a_banned_one_is_held(
    api: MessageApi, clock: Clock, code: str, minute_later: str
) -> None:
    message = await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None
    await api.worker().nack(claimed, code)
    await clock.pass_ms(59_000)
    await settle(api.scenario.dispatcher())
    assert await api.worker().claim() is None
    await clock.pass_ms(1_000)
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == minute_later


async def test_a_banned_session_is_held_before_its_message_waits_again(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None

    async def dies(*_: object, **__: object) -> None:
        raise RuntimeError("dies")

    monkeypatch.setattr(outbox, "nack", dies)
    with pytest.raises(RuntimeError, match="dies"):
        await api.worker().nack(claimed, "WA_403")
    assert await api.context.redis.hexists(keys.HOLDS, f"phone:{PHONE}")


async def test_after_a_463_new_contacts_wait(api: MessageApi, clock: Clock) -> None:
    await api.released()
    worker = api.worker()
    claimed = await worker.claim()
    assert claimed is not None
    await worker.nack(claimed, "REACHOUT_LOCKED", retryable=False)
    stranger = await api.scenario.accept("w1", PHONE, to="97251000002")
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    assert await worker.claim() is None
    await clock.pass_ms(600_000)
    await settle(api.scenario.dispatcher())
    found = await worker.claim()
    assert found is not None
    assert found["messageId"] == stranger


async def test_after_a_475_new_contacts_wait_for_the_sessions_next_day_and_known_ones_do_not(
    api: MessageApi, clock: Clock
) -> None:
    await api.context.redis.hset(keys.session("w1"), "timezone", "Asia/Dubai")  # four hours ahead
    refused, worker = await api.released(), api.worker()
    stranger = await api.scenario.accept("w1", PHONE, to="97251000002")
    friend = await api.scenario.accept("w1", PHONE, to="97251000009")
    await api.context.redis.sadd(keys.contacts(PHONE), "97251000009")
    claimed = await worker.claim()
    assert claimed is not None
    answer = (await worker.nack(claimed, "NEW_CHAT_CAP", retryable=False)).json()
    assert answer == {"status": "queued", "reason": "NEW_CHAT_CAP"}
    assert await api.context.redis.hget(keys.pace(PHONE), "cap_until") == str(NOON + 8 * 3_600_000)
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    known = await worker.claim()
    assert known is not None
    assert known["messageId"] == friend
    await worker.ack(known)
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    assert await worker.claim() is None
    assert await api.context.redis.zrange(keys.set_aside(PHONE), 0, -1) == [refused, stranger]
    await clock.set(NOON + DAY_MS)
    await settle(api.scenario.dispatcher())
    found = await worker.claim()
    assert found is not None
    assert (found["messageId"], found["attempt"]) == (refused, 2)


async def test_messages_that_meet_the_cap_day_after_day_use_up_no_attempt(api: MessageApi, clock: Clock) -> None:
    message, worker = await api.released(), api.worker()
    for day in range(1, 6):
        claimed = await worker.claim()
        assert claimed is not None
        assert (await worker.nack(claimed, "WA_475", retryable=False)).json()["status"] == "queued"
        await settle(api.scenario.dispatcher())
        assert await worker.claim() is None
        await clock.set(NOON + day * DAY_MS)
        await settle(api.scenario.dispatcher())
    claimed = await worker.claim()
    assert claimed is not None
    assert claimed["messageId"] == message
    assert (await worker.nack(claimed, "ACK_TIMEOUT")).json()["status"] == "queued"


async def test_new_contacts_wait_before_the_message_that_met_the_cap_does(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.released()
    claimed = await api.worker().claim()
    assert claimed is not None

    async def dies(*_: object, **__: object) -> None:
        raise RuntimeError("dies")

    monkeypatch.setattr(outbox, "nack", dies)
    with pytest.raises(RuntimeError, match="dies"):
        await api.worker().nack(claimed, "NEW_CHAT_CAP")
    assert await api.context.redis.hget(keys.pace(PHONE), "cap_until")


async def test_only_the_holder_may_nack(api: MessageApi) -> None:
    message = await api.released()
    worker = api.worker()
    answer = await worker.nack({"messageId": message}, "408")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "NOT_HOLDER")
    assert await api.scenario.status(message) == "scheduled"


async def test_a_renewed_lease_is_not_reclaimed(api: MessageApi, clock: Clock) -> None:
    message = await api.released()
    worker = api.worker()
    await worker.claim()
    await clock.pass_ms(100_000)
    assert (await worker.call(f"{message}/renew")).status_code == 200
    await clock.pass_ms(100_000)
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(message) == "sending"


async def test_a_worker_that_hangs_up_claims_nothing(api: MessageApi) -> None:
    waiting = asyncio.create_task(api.worker().claim(wait_ms=20_000))
    await _someone_waits(api)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    message = await api.released()
    assert await api.scenario.status(message) == "scheduled"


async def test_a_location_and_a_file_reach_the_worker_as_it_reads_them(api: MessageApi, clock: Clock) -> None:
    place = {"kind": "location", "location": {"latitude": 32.1, "longitude": 34.8, "name": "Home"}}
    file = {"kind": "image", "media": {"mimetype": "image/png", "upload": "u_" + "0" * 32, "caption": "Look"}}
    await api.released(fields={"body": json.dumps(place), "kind": "location"})
    worker = api.worker()
    first = await worker.claim()
    assert first is not None
    assert first["location"] == {"latitude": 32.1, "longitude": 34.8, "name": "Home"}
    await worker.ack(first)
    await clock.pass_ms(60_000)
    await api.released(fields={"body": json.dumps(file), "kind": "image"})
    second = await worker.claim()
    assert second is not None
    url = f"/api/worker/sessions/w1/media/u_{'0' * 32}"
    assert (second["kind"], second["media"]) == ("image", {"url": url, "mimetype": "image/png", "caption": "Look"})


async def test_a_command_reaches_a_waiting_worker_and_its_answer_the_asker(api: MessageApi) -> None:
    worker = api.worker()
    waiting = asyncio.create_task(worker.claim(wait_ms=20_000))
    await _someone_waits(api)
    asked = asyncio.create_task(
        command_calls.call(api.context, "w1", "pairing_code", timeout_s=PATIENCE_S, phone=PHONE)
    )
    told = await waiting
    assert told is not None
    assert told["command"]["kind"] == "pairing_code"
    await worker.call(f"commands/{told['command']['id']}/result", {"ok": True, "code": "ABCD1234"})
    assert (await asked)["code"] == "ABCD1234"


async def test_a_command_that_fails_reports_the_workers_error_and_a_silent_worker_times_out(api: MessageApi) -> None:
    with pytest.raises(Unavailable):
        await command_calls.call(api.context, "w1", "logout", timeout_s=0.05)
    assert await api.context.redis.llen(keys.commands("w1")) == 0
    asked = asyncio.create_task(command_calls.call(api.context, "w1", "logout", timeout_s=PATIENCE_S))
    told = await api.worker().claim(wait_ms=5_000)
    assert told is not None
    await api.worker().call(f"commands/{told['command']['id']}/result", {"ok": False, "code": "NOT_CONNECTED"})
    with pytest.raises(Refused) as refusal:
        await asked
    assert refusal.value.code == "NOT_CONNECTED"


async def test_the_statistics_of_the_day_count_what_was_sent(api: MessageApi) -> None:
    await api.released()
    worker = api.worker()
    claimed = await worker.claim()
    assert claimed is not None
    await worker.ack(claimed)
    session = await records.session(api.context.scripts, "w1")
    assert session is not None
    assert await api.context.redis.hgetall(keys.stats("w1", "20250615")) == {"sent": "1"}


async def test_a_worker_fetches_the_file_of_the_message_that_it_holds_and_no_other(api: MessageApi) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"not really a picture"

    async def fetched(upload_id: str, **headers: str) -> httpx.Response:
        return await api.client.get(f"/api/worker/sessions/w1/media/{upload_id}", headers=headers)

    own, other = [await uploads.save(api.context.settings, chunks(), mimetype="image/png") for _ in range(2)]
    token = {"Authorization": f"Bearer {tokens.mint(api.context.settings, 'w1', 1).token}"}
    file = {"kind": "image", "media": {"mimetype": "image/png", "upload": own.id}}
    await api.released(fields={"body": json.dumps(file), "kind": "image"})
    assert (await fetched(own.id, **token)).status_code == 404  # it waits, and nobody holds it
    claimed = await api.worker().claim()
    assert claimed is not None
    found = await fetched(own.id, **token)
    assert (found.content, found.headers["content-type"]) == (b"not really a picture", "image/png")
    assert (await fetched(own.id)).status_code == 401
    assert [(await fetched(each, **token)).status_code for each in (other.id, "u_" + "0" * 32)] == [404, 404]
    await api.worker().ack(claimed)
    assert (await fetched(own.id, **token)).status_code == 404
