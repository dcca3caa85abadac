"""Events of workers: only genuine, fresh, present ones count, and their order does not matter."""

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from standardwebhooks.webhooks import Webhook

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import PHONE, now, started, with_credentials
from wa_orchestrator.orchestrator.api.workers import events
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.store import keys


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"secret": "whsec_Zm9yZ2VkIGZvcmdlZCBmb3JnZWQgZm9yZ2Vk"}, 401, "BAD_SIGNATURE"),
        ({"body": b'{"sessionId":"s1","type":"CONNECTED","timestamp":1,"epoch":1,"data":{}}'}, 401, "BAD_SIGNATURE"),
        ({"webhook_id": ""}, 401, "BAD_SIGNATURE"),
        ({"sent_ago_s": 301}, 401, "STALE_SIGNATURE"),
        ({"sent_ago_s": -330}, 401, "STALE_SIGNATURE"),
        ({"epoch": 0}, 409, "FENCED"),
        ({"epoch": 7}, 409, "FENCED"),
        ({"body": b"not json"}, 400, "BAD_EVENT"),
        ({"body": b"[" * 100_000}, 400, "BAD_EVENT"),
    ],
)
async def test_an_event_that_does_not_prove_itself_changes_nothing(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, changes: dict[str, Any], status: int, code: str
) -> None:
    before = await started(control, api)
    answer = await teller.connected("s1", PHONE, **changes)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert await now(control.context, "s1") == before


@pytest.mark.parametrize("digits", [400, 5000])
async def test_a_time_that_is_no_time_is_refused_and_breaks_nothing(api: httpx.AsyncClient, digits: int) -> None:
    headers = {"webhook-id": "e1", "webhook-signature": "v1,eA==", "webhook-timestamp": "9" * digits}
    answer = await api.post("/webhook", content=b'{"sessionId": "s1", "epoch": 1}', headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "BAD_SIGNATURE")


FOUR_FIELDS_ONLY: dict[str, Any] = {"leave_out": ("epoch", "sequence")}


async def test_an_event_without_an_epoch_is_that_of_the_current_worker_if_it_signed_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    assert (await teller.tell("s1", "QR_CODE", {"qr": "2@ABC"}, **FOUR_FIELDS_ONLY)).status_code == 200
    assert (await api.get("/api/sessions/s1/qr")).json()["qr"] == "2@ABC"
    assert (await teller.tell("s1", "CONNECTED", {"phoneNumber": PHONE}, **FOUR_FIELDS_ONLY)).status_code == 200
    linked = await now(control.context, "s1")
    assert (linked.status, linked.phone, linked.jid) == ("connected", PHONE, f"{PHONE}@s.whatsapp.net")


@pytest.mark.parametrize(
    ("form", "is_accepted"),
    [("{0}", True), ("v1,AAAA {0}", True), ("v2,x {0}", True), ("", False), ("v1,", False), ("v2,{1}", False),
     ("{0}=", False), ("{0},{0}", False), ("v1,é", False)],
)  # fmt: skip
def test_one_true_signature_is_enough_and_nothing_but_a_true_one_is(form: str, is_accepted: bool) -> None:
    secret, sent_at, body = "whsec_bm90LWEtcmVhbC1zZWNyZXQtYnV0LWxvbmc=", datetime(2026, 1, 1, tzinfo=UTC), '{"a": "é"}'
    true = Webhook(secret).sign("evt_1", sent_at, body)
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(int(sent_at.timestamp()))}
    headers["webhook-signature"] = form.format(true, true.removeprefix("v1,"))
    assert events._is_signed(secret, body.encode(), headers) is is_accepted
    assert not events._is_signed(secret, body.encode() + b" ", headers)


@pytest.mark.parametrize("session_id", ["s1", "nobody"])
async def test_a_missing_epoch_is_named_where_the_signature_does_not_tell_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, session_id: str
) -> None:
    before = await started(control, api)
    answer = await teller.tell(session_id, "QR_CODE", {"qr": "2@ABC"}, epoch=77, **FOUR_FIELDS_ONLY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "EPOCH_MISSING")
    assert await now(control.context, "s1") == before


async def test_an_event_with_a_field_of_the_wrong_kind_is_refused_by_its_path(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    answer = await teller.tell("s1", "CONNECTED", {"jid": "x"})
    assert (answer.status_code, answer.json()["error"]["path"]) == (400, "data.phoneNumber")


async def test_a_fenced_worker_finds_the_word_where_it_looks_first(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    answer = await teller.connected("s1", PHONE, epoch=0)
    assert answer.json()["code"] == "FENCED"


async def test_an_event_of_a_session_that_is_gone_is_fenced(teller: Teller) -> None:
    answer = await teller.connected("nobody", PHONE, epoch=1)
    assert (answer.status_code, answer.json()["code"]) == (409, "FENCED")


async def test_a_replayed_event_is_refused_as_accepted_before(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    assert (await teller.connected("s1", PHONE, webhook_id="evt_x")).status_code == 200
    after = await now(control.context, "s1")
    answer = await teller.disconnected("s1", 403, webhook_id="evt_x")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "DUPLICATE")
    assert await now(control.context, "s1") == after


async def test_an_event_that_failed_midway_may_come_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    handlers = control.handlers
    whole = dict(handlers)
    broken: list[bool] = []

    async def breaks(*_: object) -> None:
        broken.append(True)
        raise OSError("Redis went away")

    for kind in whole:
        handlers[kind] = breaks
    assert (await teller.connected("s1", PHONE, webhook_id="evt_y")).status_code == 500
    handlers.update(whole)
    assert (await teller.connected("s1", PHONE, webhook_id="evt_y")).status_code == 200
    assert broken
    assert (await now(control.context, "s1")).status == "connected"


async def test_an_event_that_is_being_taken_in_keeps_its_repetition_waiting(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    await control.context.redis.set(keys.heard("s1", "evt_z"), "working")
    answer = await teller.connected("s1", PHONE, webhook_id="evt_z")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STILL_WORKING")


async def test_both_addresses_take_events(control: Orchestrator, api: httpx.AsyncClient, teller: Teller) -> None:
    await started(control, api)
    assert (await teller.qr("s1")).status_code == 200
    assert (await teller.connected("s1", PHONE, path="/api/webhook")).status_code == 200


async def test_an_unknown_kind_of_event_is_accepted_and_left_aside(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    before = await started(control, api)
    assert (await teller.tell("s1", "FROM_THE_FUTURE", {"x": 1})).status_code == 200
    assert await now(control.context, "s1") == before


async def test_a_logged_out_session_loses_its_credentials_to_the_trash_and_offers_a_new_code(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    session = await started(control, api)
    await teller.connected("s1", PHONE)
    credentials = with_credentials(control, "credentials")
    await teller.disconnected("s1", 401)
    await drive(control)
    after = await now(control.context, "s1")
    assert (after.status, after.reason, after.first_connected_at) == ("pending", "LOGGED_OUT", 0)
    assert not credentials.exists()
    assert [each["sessionId"] for each in (await api.get("/api/v1/trash")).json()["trash"]] == ["s1"]
    assert runner.epochs()["s1"] > session.epoch


async def test_a_phone_that_logs_itself_out_is_told_at_once_and_stays_unlinked_until_it_is_linked_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    await teller.connected("s1", PHONE)
    await teller.disconnected("s1", 401)
    told: Any = await control.context.redis.xrange(keys.EVENTS)
    assert [fields["reason"] for _, fields in told if fields["type"] == "session.unlinked"] == ["LOGGED_OUT"]
    unlinked_at = (await now(control.context, "s1")).unlinked_at
    await drive(control)
    await teller.tell("s1", "QR_CODE", {"qr": "2@a", "expiresAt": round(time.time() * 1000) + 60_000})
    after = await now(control.context, "s1")
    assert (after.status, after.reason, after.unlinked_at) == ("qr_ready", "LOGGED_OUT", unlinked_at)
    assert unlinked_at > 0
    await teller.connected("s1", PHONE)
    after = await now(control.context, "s1")
    assert (after.status, after.reason, after.unlinked_at) == ("connected", None, 0)


async def test_a_session_that_was_never_linked_is_not_told_as_unlinked_on_the_phone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    await teller.disconnected("s1", 401)
    assert (await now(control.context, "s1")).unlinked_at == 0


async def test_a_logout_of_a_session_whose_credentials_cannot_be_read_gives_a_new_code(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await started(control, api)
    await teller.connected("s1", PHONE)
    credentials = with_credentials(control, "garbage")
    await teller.tell("s1", "AUTH_FAILURE", {"reason": "unreadable"})
    await drive(control)
    assert (await now(control.context, "s1")).status == "failed"
    answer = await api.post("/api/sessions/s1/logout")
    assert (answer.status_code, answer.json()["status"]) == (200, "pending")
    await drive(control)
    assert not credentials.exists()
    assert [each["sessionId"] for each in (await api.get("/api/v1/trash")).json()["trash"]] == ["s1"]
    assert "s1" in runner.epochs()
    await teller.tell("s1", "QR_CODE", {"qr": "2@a", "expiresAt": round(time.time() * 1000) + 60_000})
    after = await now(control.context, "s1")
    assert (after.status, after.reason, after.unlinked_at) == ("qr_ready", "SCAN_THE_CODE", 0)


async def test_a_logout_of_a_stopped_session_discards_its_credentials_and_leaves_it_stopped(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await started(control, api)
    await teller.connected("s1", PHONE)
    credentials = with_credentials(control, "credentials")
    await api.post("/api/sessions/s1/stop")
    await drive(control)
    assert (await api.post("/api/sessions/s1/logout")).json()["status"] == "stopped"
    await drive(control)
    assert not credentials.exists()
    assert runner.running == {}


async def test_a_ban_fails_the_session_and_holds_its_messages(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    await teller.connected("s1", PHONE)
    ends = round(time.time() * 1000) + 3_600_000
    data = {"reason": "temporary", "code": 402, "willReconnect": False, "expiresAt": ends}
    await teller.tell("s1", "DISCONNECTED", data)
    hold = json.loads(await control.context.redis.hget(keys.HOLDS, f"phone:{PHONE}") or "{}")
    assert ((await now(control.context, "s1")).reason, hold["until_ms"]) == ("TEMPORARY_BAN", ends)


async def test_a_crash_while_a_ban_is_written_down_leaves_the_hold(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(control, api)
    await teller.connected("s1", PHONE)

    async def dies(*_: object) -> None:
        raise RuntimeError("dies")

    monkeypatch.setattr(transitions, "apply_report", dies)
    assert (await teller.disconnected("s1", 403)).status_code == 500
    assert await control.context.redis.hexists(keys.HOLDS, f"phone:{PHONE}")


async def test_a_replaced_session_fails_and_its_worker_is_not_started_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await started(control, api)
    await teller.connected("s1", PHONE)
    await teller.disconnected("s1", 440)
    runner.die("s1")
    await part(control, Reconciler).step()
    await part(control, ExitWatcher).step()
    await drive(control)
    after = await now(control.context, "s1")
    assert (after.status, after.reason, runner.running) == ("failed", "REPLACED_ELSEWHERE", {})


# -- any order, any repetition ----------------------------------------------------------------------------------------

_START = 1_750_000_000_000


def _kinds() -> list[tuple[str, dict[str, Any]]]:
    expires = round(time.time() * 1000) + 600_000
    ends = [{"reason": "", "code": code, "willReconnect": False} for code in (408, 428, 401, 402, 403, 440, 515)]
    return [
        ("QR_CODE", {"qr": "2@a", "expiresAt": expires}),
        ("CONNECTED", {"phoneNumber": PHONE, "jid": f"{PHONE}:1@s.whatsapp.net"}),
        ("STATUS_CHANGE", {"status": "QR_EXPIRED"}),
        ("AUTH_FAILURE", {"reason": "unreadable"}),
        ("PING", {"timestamp": _START, "socket": "open", "lagMs": 1, "rssBytes": 1}),
        *(("DISCONNECTED", end) for end in ends),
    ]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices=st.lists(st.integers(0, 11), min_size=50, max_size=50), shuffled=st.permutations(range(100)))
async def test_a_hundred_events_shuffled_and_doubled_give_the_state_of_their_own_order(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, choices: list[int], shuffled: list[int]
) -> None:
    kinds = _kinds()
    events = [(at, *kinds[choice]) for at, choice in enumerate(choices)]
    ends = []
    for name, order in (("straight", list(range(50))), ("shuffled", [index % 50 for index in shuffled])):
        await started(control, api, name)
        for index in order:
            at, kind, data = events[index]
            answer = await teller.tell(name, kind, data, timestamp=_START + at, webhook_id=f"{name}_{index}")
            assert answer.status_code in (200, 409), answer.text
        end = await now(control.context, name)
        ends.append((end.status, end.reason, end.phone))
        await _forget(control, name)
    assert ends[0] == ends[1]


async def _forget(control: Orchestrator, name: str) -> None:
    redis: Redis = control.context.redis
    await redis.hset(keys.session(name), mapping={"removing": "forget", "wanted": "stopped"})
    await redis.rpush(keys.CONTROL_ATTEND, name)
    await drive(control)
    stale = [key async for key in redis.scan_iter(match=f"session:heard:{name}:*")]
    if stale:
        await redis.delete(*stale)
    await asyncio.sleep(0)


async def test_an_event_that_is_far_too_long_is_not_read(teller: Teller) -> None:
    answer = await teller.connected("s1", PHONE, epoch=1, body=b'"' + b"x" * (4 << 20) + b'"')
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LONG")
