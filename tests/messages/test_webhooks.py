"""Webhook delivery (signed, at least once, retried) and the events API."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from tests.conftest import Clock
from tests.messages.conftest import PHONE, MessageApi
from tests.orchestrator.fakes import Teller
from tests.waiting import PATIENCE_S
from wa_orchestrator.domain.access.permissions import Scope
from wa_orchestrator.domain.stream_events import AlertTest, EventType
from wa_orchestrator.domain.workers.worker_events import IncomingMessage
from wa_orchestrator.orchestrator.api.events import routes as events_api
from wa_orchestrator.orchestrator.api.workers import events as worker_events
from wa_orchestrator.orchestrator.messages import incoming_messages
from wa_orchestrator.orchestrator.notifications.webhooks import RETRIES_S, WebhookDeliverer
from wa_orchestrator.store import keys
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.events.event_tail import Tail
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.app import make_app
from wa_orchestrator.web.auth import Caller

DAY_MS = 86_400_000


@dataclass
class Receiver:
    """An HTTP server that answers as configured and keeps what it received."""

    url: str = ""
    answer: int = 200
    got: list[tuple[dict[str, str], str]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in raw[1:] if ": " in line)
        # Signatures are base64: their case matters.
        headers["webhook-signature"] = next(
            line.split(": ", 1)[1] for line in raw if line.lower().startswith("webhook-signature")
        )
        body = (await reader.readexactly(int(headers["content-length"]))).decode()
        self.got.append((headers, body))
        writer.write(f"HTTP/1.1 {self.answer} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A running receiver."""
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    yield made
    server.close()


async def add(api: MessageApi, receiver: Receiver, *events: str) -> dict[str, Any]:
    answer = await api.client.post("/api/v1/webhooks", json={"url": receiver.url, "events": list(events) or ["*"]})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def deliver(deliverer: WebhookDeliverer) -> None:
    """Deliver everything that is due now."""
    for _ in range(50):
        if await deliverer.step() and not deliverer._tasks:
            return
        await deliverer.idle()
    raise AssertionError("deliveries do not end")


async def test_an_event_is_delivered_with_a_signature_that_the_standard_library_verifies(
    api: MessageApi, receiver: Receiver
) -> None:
    hook = await add(api, receiver, "message.queued")
    message = await api.released(to="97251000001", fields={"reference": "order-7"})
    await deliver(WebhookDeliverer(api.context))
    [(headers, body)] = receiver.got
    event = Verifier(hook["secret"]).verify(body, headers)
    assert event["type"] == "message.queued"
    assert event["data"]["messageId"] == message
    assert event["data"]["sessionId"] == "w1"
    assert event["data"]["reference"] == "order-7"
    assert event["data"]["contact"] == {"phone": "97251000001", "lid": None}
    with pytest.raises(WebhookVerificationError):
        Verifier(hook["secret"]).verify(body.replace("order-7", "order-8"), headers)


async def test_the_secret_is_shown_once_and_only_administrators_see_webhooks(
    api: MessageApi, receiver: Receiver
) -> None:
    hook = await add(api, receiver)
    listed = await api.client.get("/api/v1/webhooks")
    assert [each["id"] for each in listed.json()["webhooks"]] == [hook["id"]]
    assert hook["secret"] not in listed.text
    assert (await api.client.get("/api/v1/webhooks", headers={"X-API-Key": "wrong"})).status_code == 401


async def test_a_webhook_is_changed_without_losing_its_secret_or_what_waits(
    api: MessageApi, receiver: Receiver
) -> None:
    hook, path = await add(api, receiver, "session.*"), "/api/v1/webhooks/"
    body = {"events": ["message.queued"], "sessions": ["w1"], "labels": ["haifa"]}
    changed = (await api.client.patch(path + hook["id"], json=body)).json()
    assert {name: changed[name] for name in body} == body
    assert changed["url"] == receiver.url
    assert "secret" not in changed
    lifted = (await api.client.patch(path + hook["id"], json={"labels": []})).json()
    assert (lifted["sessions"], lifted["labels"]) == (["w1"], [])
    await api.released(to="97251000001")
    await deliver(WebhookDeliverer(api.context))
    [(headers, text)] = receiver.got
    assert Verifier(hook["secret"]).verify(text, headers)["type"] == "message.queued"
    refused = await api.client.patch(path + hook["id"], json={"url": "ftp://crm.example.com"})
    assert refused.status_code == 422
    assert (await api.client.patch(path + "wh_000000000000", json=body)).json()["error"]["code"] == "NO_SUCH_WEBHOOK"


def _verifies(secret: str, delivered: tuple[dict[str, str], str]) -> bool:
    headers, body = delivered
    try:
        Verifier(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


@pytest.mark.parametrize(("keep_days", "for_now"), [(7, True), (0, False)])
async def test_after_a_rotation_the_old_secret_verifies_for_as_long_as_was_asked(
    api: MessageApi, receiver: Receiver, clock: Clock, keep_days: int, for_now: bool
) -> None:
    hook, deliverer = await add(api, receiver, "message.*"), WebhookDeliverer(api.context)
    path = f"/api/v1/webhooks/{hook['id']}/rotate-secret"
    new = (await api.client.post(path, json={"keepDays": keep_days})).json()["secret"]
    assert new != hook["secret"]
    for old_is_good in (for_now, False):
        await api.scenario.accept("w1", PHONE)
        await deliver(deliverer)
        assert [_verifies(secret, receiver.got[-1]) for secret in (new, hook["secret"])] == [True, old_is_good]
        await clock.pass_ms(keep_days * DAY_MS)
    assert new not in (await api.client.get("/api/v1/webhooks")).text


async def test_the_secret_of_a_webhook_that_is_gone_cannot_be_rotated(api: MessageApi, receiver: Receiver) -> None:
    hook = await add(api, receiver)
    await api.client.delete(f"/api/v1/webhooks/{hook['id']}")
    answer = await api.client.post(f"/api/v1/webhooks/{hook['id']}/rotate-secret")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NO_SUCH_WEBHOOK")
    assert (await api.client.get("/api/v1/webhooks")).json()["webhooks"] == []


async def test_a_failed_delivery_is_tried_again_with_the_same_id_until_it_succeeds(
    api: MessageApi, receiver: Receiver, clock: Clock
) -> None:
    await add(api, receiver, "message.queued")
    deliverer = WebhookDeliverer(api.context)
    receiver.answer = 500
    await api.released()
    await deliver(deliverer)
    await deliver(deliverer)
    assert len(receiver.got) == 1  # the backoff
    await clock.pass_ms(6_000)
    await deliver(deliverer)
    receiver.answer = 200
    await clock.pass_ms(331_000)
    await deliver(deliverer)
    await clock.pass_ms(DAY_MS)
    await deliver(deliverer)
    assert len(receiver.got) == 3
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1


async def test_the_retries_last_for_three_days() -> None:
    assert 3 * 86_400 <= sum(RETRIES_S) <= 3.5 * 86_400


async def test_a_webhook_that_fails_for_three_days_is_disabled_and_that_is_an_event(
    api: MessageApi, receiver: Receiver, clock: Clock
) -> None:
    hook = await add(api, receiver, "message.queued")
    deliverer = WebhookDeliverer(api.context)
    receiver.answer = 500
    await api.released()
    for _ in range(24):
        await deliver(deliverer)
        await clock.pass_ms(DAY_MS // 4)
    [listed] = (await api.client.get("/api/v1/webhooks")).json()["webhooks"]
    assert (listed["enabled"], listed["why"]) == (False, "HTTP_500")
    [event] = await api.scenario.events("webhook.disabled")
    assert event["webhook"] == hook["id"]
    tried = len(receiver.got)
    await api.scenario.accept("w1", PHONE)
    await deliver(deliverer)
    assert len(receiver.got) == tried
    await api.client.post(f"/api/v1/webhooks/{hook['id']}/enable")
    receiver.answer = 200
    await deliver(deliverer)
    assert len(receiver.got) == tried + 1


async def test_a_killed_deliverer_loses_nothing_and_the_next_continues_from_the_cursor(
    api: MessageApi, receiver: Receiver, clock: Clock
) -> None:
    await add(api, receiver, "message.queued")
    dead = WebhookDeliverer(api.context)
    await api.scenario.accept("w1", PHONE)
    await dead.step()  # queued, and taken: then the process ends
    for task in dead._tasks:
        task.cancel()
    await asyncio.gather(*dead._tasks, return_exceptions=True)
    before = len(receiver.got)
    await api.scenario.accept("w1", PHONE)
    await clock.pass_ms(60_001)
    await deliver(WebhookDeliverer(api.context))
    ids = [headers["webhook-id"] for headers, _ in receiver.got]
    assert len(set(ids)) == 2
    assert len(ids) - before == 2 or before == 1


async def test_two_deliverers_deliver_each_event_once(api: MessageApi, receiver: Receiver, clock: Clock) -> None:
    await add(api, receiver, "message.queued")
    for _ in range(30):
        await api.scenario.accept("w1", PHONE)
    one, other = WebhookDeliverer(api.context), WebhookDeliverer(api.context)
    for _ in range(10):
        await asyncio.gather(deliver(one), deliver(other))
        await clock.pass_ms(300)  # at most five at once go to one system
    ids = [headers["webhook-id"] for headers, _ in receiver.got]
    assert len(ids) == len(set(ids)) == 30


async def test_a_delivery_of_the_log_can_be_replayed(api: MessageApi, receiver: Receiver) -> None:
    hook = await add(api, receiver, "message.queued")
    await api.scenario.accept("w1", PHONE)
    deliverer = WebhookDeliverer(api.context)
    await deliver(deliverer)
    log = (await api.client.get(f"/api/v1/webhooks/{hook['id']}/deliveries")).json()["deliveries"]
    assert [(each["status"], each["attempts"]) for each in log] == [("delivered", 1)]
    address = f"/api/v1/webhooks/{hook['id']}/deliveries/{log[0]['number']}/replay"
    assert (await api.client.post(address)).status_code == 202
    await deliver(deliverer)
    assert len(receiver.got) == 2
    assert receiver.got[0][1] == receiver.got[1][1]
    assert (await api.client.post(address.replace(log[0]["number"], "1-1"))).status_code == 404


async def test_a_private_address_is_refused_unless_the_operator_allows_it(api: MessageApi, receiver: Receiver) -> None:
    strict = api.context.settings.model_copy(update={"allow_private_urls": False})
    hook = await add(api, receiver, "message.queued")
    api.context.settings = strict
    answer = await api.client.post("/api/v1/webhooks", json={"url": receiver.url})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "URL_REFUSED")
    await api.scenario.accept("w1", PHONE)
    await deliver(WebhookDeliverer(api.context))
    assert receiver.got == []
    log = (await api.client.get(f"/api/v1/webhooks/{hook['id']}/deliveries")).json()["deliveries"]
    assert [each["note"] for each in log] == ["URL_REFUSED"]


@pytest.mark.parametrize("pattern", ["message.recieved", "mesage.*", "phone.locked", "alert.test", "message"])
async def test_a_pattern_that_selects_no_event_is_refused(api: MessageApi, receiver: Receiver, pattern: str) -> None:
    answer = await api.client.post("/api/v1/webhooks", json={"url": receiver.url, "events": ["message.*", pattern]})
    assert answer.status_code == 422
    assert "/events/1" in answer.text or "events.1" in answer.text


async def test_a_reachout_lock_is_delivered_and_a_test_alert_is_not(api: MessageApi, receiver: Receiver) -> None:
    await add(api, receiver)
    scripts = api.context.scripts
    await event_stream.emit(scripts, EventType.ALERT_TEST, AlertTest("admin"))
    until_ms = await scripts.now_ms() + 60_000
    await contacts.limit(scripts, PHONE, "lock", session="w1", until_ms=until_ms, source="reported")
    await deliver(WebhookDeliverer(api.context))
    events = [json.loads(body) for _, body in receiver.got]
    assert [event["type"] for event in events] == ["session.reachout_locked"]
    assert events[0]["data"] == {"sessionId": "w1", "phone": PHONE, "until": iso(until_ms)}


async def test_events_come_in_pages_and_a_filter_loses_none(api: MessageApi) -> None:
    for _ in range(7):
        await api.scenario.accept("w1", PHONE)
    seen: list[str] = []
    after = "0"
    for _ in range(20):
        answer = await api.client.get("/api/v1/events", params={"after": after, "types": "message.*", "limit": 2})
        page = answer.json()
        seen += [event["data"]["messageId"] for event in page["events"]]
        after = page["next"]
        if not page["more"]:
            break
    assert len(seen) == len(set(seen)) == 7
    assert (await api.client.get("/api/v1/events", params={"after": "yesterday"})).status_code == 422


async def test_a_stream_resumes_after_the_last_event_and_sends_heartbeats(api: MessageApi) -> None:
    first = await api.scenario.accept("w1", PHONE)
    tail = Tail(api.context.scripts)
    begin = await event_stream.last_cursor(api.context.scripts)
    lines = events_api.follow(api.context, tail, begin, ("message.*",), _administrator, heartbeat_s=0.05)
    assert (await anext(lines)).startswith("retry:")
    assert await anext(lines) == ": still here\n\n"
    second = await api.scenario.accept("w1", PHONE)
    assert second in await _next_event(lines)
    resumed = events_api.follow(api.context, tail, "0", ("message.*",), _administrator)
    await anext(resumed)
    assert first in await anext(resumed)
    await lines.aclose()  # type: ignore[attr-defined]
    await resumed.aclose()  # type: ignore[attr-defined]
    await tail.close()


async def _administrator() -> Caller:
    return Caller("configured", frozenset({Scope.ADMIN}))


async def _next_event(lines: AsyncIterator[str]) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while not (line := await anext(lines)).startswith("id:"):
            pass
    return line


async def test_a_contact_has_its_phone_and_its_lid_in_every_event(api: MessageApi) -> None:
    received = contacts.Incoming(
        "w1", PHONE, "3EB0AA", "text", "97251000001", "77001", fields={"text": "hello", "at": 1}
    )
    await contacts.receive(api.context.scripts, received, keep_ms=60_000)
    await api.scenario.accept("w1", PHONE, to="97251000001")
    page = (await api.client.get("/api/v1/events", params={"types": "message.*"})).json()["events"]
    assert [event["data"]["contact"] for event in page] == [{"phone": "97251000001", "lid": "77001"}] * 2
    assert page[0]["data"]["text"] == "hello"
    stored = await api.context.redis.xrange(keys.EVENTS)
    assert "hello" not in str(stored)  # pages and logs read the stream; texts are not in it


async def _reported(api: MessageApi, receiver: Receiver, **content: object) -> dict[str, Any]:
    """A worker reports a message, signed as a worker signs; the data that the webhook gets."""
    await add(api, receiver, "message.received")
    received = worker_events.OneStep(incoming_messages.on_message_received)
    app = make_app(api.context, [worker_events.WorkerEventRoutes(api.context, {IncomingMessage: received})])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        person = {"from": "77001@lid", "phone": "97251000001", "lid": "77001@lid"}
        data = {"whatsappId": "3EB0AA", **person, "at": 1_750_000_000_000, **content}
        answer = await Teller(api.context, client).tell("w1", "MESSAGE_RECEIVED", data)
        assert answer.status_code == 200, answer.text
    await deliver(WebhookDeliverer(api.context))
    [event] = receiver.events()
    reported: dict[str, Any] = event["data"]
    return reported


async def test_a_message_in_a_group_is_reported_with_its_group(api: MessageApi, receiver: Receiver) -> None:
    data = await _reported(api, receiver, kind="text", text="Hi all", group="120363001@g.us")
    assert (data["group"], data["text"]) == ("120363001@g.us", "Hi all")
    assert data["contact"] == {"phone": "97251000001", "lid": "77001"}


async def test_a_private_message_is_reported_without_a_group(api: MessageApi, receiver: Receiver) -> None:
    assert "group" not in await _reported(api, receiver, kind="text", text="Hi")


async def test_a_location_is_reported_with_its_coordinates(api: MessageApi, receiver: Receiver) -> None:
    place = {"latitude": 32.0853, "longitude": 34.7818, "name": "Office"}
    assert (await _reported(api, receiver, kind="location", location=place))["location"] == place
