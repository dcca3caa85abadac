"""The way of a message with real parts: from the client's request to the person's phone, and back again.

One product for all tests: two linked sessions, real workers, a WhatsApp that decrypts. Every test has people of its own,
so that none depends on another.
"""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from tests.e2e.product import Product, product, unhurried
from tests.waiting import PATIENCE_S, promised, until

SESSIONS = {"north": "972501100001", "south": "972501100002"}
HAD = ("sent", "delivered", "read")
ENDED = (*HAD, "failed", "unknown", "expired", "cancelled")
_people = itertools.count(972522000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Product]:
    """The product with two linked sessions, twenty times as fast as life."""
    settings = {
        **unhurried(20),
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": "60",
        "COLD_HOURS": "00:00-00:00",
        "ALLOW_PRIVATE_URLS": "true",
    }
    async with product(proxies=2, **settings) as made:
        await asyncio.gather(*(made.link(session, phone) for session, phone in SESSIONS.items()))
        # A worker that has just been linked turns to messages a moment later; the tests begin when both do.
        first = [await send(made, str(next(_people)), "Hello.", session) for session in SESSIONS]
        await asyncio.gather(*(reaches(made, message, *HAD) for message in first))
        yield made


@pytest.fixture
def person() -> str:
    """A phone that nobody has written to."""
    return str(next(_people))


@pytest_asyncio.fixture(loop_scope="module")
async def mishap(running: Product) -> AsyncIterator[Any]:
    """Let something go wrong at WhatsApp until the test ends."""

    async def begin(kind: str, session: str, **more: Any) -> None:
        body = {"target": {"phone": SESSIONS[session]}, "kind": kind, **more}
        (await running.control.post("/faults", json=body)).raise_for_status()

    yield begin
    await running.control.delete("/faults")


# -- what clients and people do ---------------------------------------------------------------------------------------


async def send(running: Product, to: str, text: str | None = None, session: str = "north", **more: Any) -> str:
    """Post a message that the gateway must take; its id."""
    body = {"to": to, "sessionId": session, **({"message": text} if text else {}), **more}
    answer = await running.door.post("/api/v1/send", json=body)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    return str(answer.json()["messageId"])


@asynccontextmanager
async def held(running: Product, session: str) -> AsyncIterator[None]:
    """Meanwhile an operator lets a session say nothing."""
    hold = (await running.api.post("/api/anti-ban/holds", json={"sessionId": session})).raise_for_status().json()
    try:
        yield
    finally:
        (await running.api.delete(f"/api/anti-ban/holds/{hold['id']}")).raise_for_status()


async def look(running: Product, message: str) -> dict[str, Any]:
    answer = await running.door.get(f"/api/v1/messages/{message}")
    told: dict[str, Any] = answer.raise_for_status().json()
    return told


async def reaches(running: Product, message: str, *statuses: str) -> dict[str, Any]:
    """Wait until a message has one of these statuses; another end is an error at once."""

    async def there() -> dict[str, Any] | None:
        told = await look(running, message)
        assert told["status"] in statuses or told["status"] not in ENDED or told["status"] in HAD, told
        return told if told["status"] in statuses else None

    found: dict[str, Any] = await until(there, f"{message} is {' or '.join(statuses)}")
    return found


async def inbox(running: Product, phone: str) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = (await running.control.get(f"/phones/{phone}/inbox")).raise_for_status().json()
    return shown


async def arrives(running: Product, whatsapp_id: str, phone: str) -> dict[str, Any]:
    """Wait until a message is on a person's phone; as it shows there, decrypted."""

    async def there() -> dict[str, Any] | None:
        return next((each for each in await inbox(running, phone) if each["id"] == whatsapp_id), None)

    found: dict[str, Any] = await until(there, f"{whatsapp_id} is on the phone")
    return found


async def say(running: Product, person: str, text: str, session: str = "north") -> None:
    body = {"to": SESSIONS[session], "text": text}
    (await running.control.post(f"/phones/{person}/say", json=body)).raise_for_status()


async def arrived_ids(running: Product, person: str) -> list[str]:
    return [each["id"] for each in await running.arrivals() if each["to"] == person]


# -- out --------------------------------------------------------------------------------------------------------------


async def test_a_text_arrives_decrypted_and_its_status_follows_it_until_it_is_read(
    running: Product, person: str
) -> None:
    text = "Your order is ready. ההזמנה מוכנה 🎁"
    message = await send(running, person, text, reference="order-7")
    told = await reaches(running, message, *HAD)
    shown = await arrives(running, told["whatsappId"], person)
    assert (shown["text"], shown["from"]) == (text, SESSIONS["north"])
    await reaches(running, message, "delivered")
    (await running.control.post(f"/phones/{person}/read", json={})).raise_for_status()
    told = await reaches(running, message, "read")
    story = [moment["status"] for moment in told["timeline"]]
    assert story == ["queued", "scheduled", "sending", "sent", "delivered", "read"]
    assert told["sentAt"] <= told["deliveredAt"] <= told["readAt"]
    assert await arrived_ids(running, person) == [told["whatsappId"]]


FILES = {
    "image": ("image/png", "menu.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8),
    "document": ("application/pdf", "חשבונית.pdf", b"%PDF-1.4\n" + b"invoice " * 300),
    "audio": ("audio/ogg", "greeting.ogg", b"OggS" + bytes(range(255, -1, -1)) * 4),
    "video": ("video/mp4", "tour.mp4", b"\x00\x00\x00\x18ftypmp42" + bytes(4000)),
}


@pytest.mark.parametrize("kind", FILES)
async def test_a_file_arrives_as_it_was_uploaded(running: Product, person: str, kind: str) -> None:
    mimetype, name, content = FILES[kind]
    stored = await running.door.post("/api/v1/uploads", content=content, headers={"Content-Type": mimetype})
    assert stored.status_code == httpx.codes.CREATED, stored.text
    media = {"upload": stored.json()["uploadId"], "filename": name}
    if kind != "audio":  # WhatsApp shows no caption under a sound
        media["caption"] = f"a {kind}"
    told = await reaches(running, await send(running, person, media=media), *HAD)
    shown = await arrives(running, told["whatsappId"], person)
    assert shown["kind"] == kind
    if kind != "audio":
        assert shown["text"] == f"a {kind}"
    got = await running.control.get(f"/phones/{person}/inbox/{told['whatsappId']}/media")
    assert got.content == content


async def test_a_place_arrives(running: Product, person: str) -> None:
    place = {"latitude": 32.0853, "longitude": 34.7818, "name": "Tel Aviv"}
    told = await reaches(running, await send(running, person, location=place), *HAD)
    shown = await arrives(running, told["whatsappId"], person)
    assert shown["kind"] == "location"
    assert "32.0853" in json.dumps(shown)


# -- time -------------------------------------------------------------------------------------------------------------


async def test_a_scheduled_message_leaves_at_its_time_and_not_before(running: Product, person: str) -> None:
    due = datetime.now(UTC) + timedelta(seconds=5)
    message = await send(running, person, "Good morning.", sendAt=due.isoformat())
    waits = await look(running, message)
    assert (waits["status"], waits["waiting"]["because"]) == ("queued", "SCHEDULED")
    await reaches(running, message, *HAD)
    [arrival] = [each for each in await running.arrivals() if each["to"] == person]
    assert 0 <= arrival["at"] - due.timestamp() < promised(5)


async def test_a_cancelled_message_never_leaves(running: Product, person: str) -> None:
    async with held(running, "south"):
        cancelled = await send(running, person, "never mind", session="south")
        kept = await send(running, person, "this one", session="south")
        answer = await running.door.delete(f"/api/v1/messages/{cancelled}")
        assert answer.json()["status"] == "cancelled"
    told = await reaches(running, kept, *HAD)
    assert await arrived_ids(running, person) == [told["whatsappId"]]
    late = await running.door.delete(f"/api/v1/messages/{kept}")
    assert (late.status_code, late.json()["error"]["code"]) == (409, "TOO_LATE")


# -- failures ---------------------------------------------------------------------------------------------------------


async def test_a_dead_letter_goes_again_with_the_same_whatsapp_id(running: Product, person: str, mishap: Any) -> None:
    await mishap("ack_error", "south", code=500)
    message = await send(running, person, "Try me.", session="south")
    dead = await reaches(running, message, "failed")
    assert dead["attempts"] == 3
    refused = (await running.control.get("/refusals")).json()
    assert [each["id"] for each in refused if each["to"] == person] == [dead["whatsappId"]] * 3
    assert await arrived_ids(running, person) == []
    await running.control.delete("/faults")
    answer = await running.door.post(f"/api/v1/messages/{message}/retry")
    assert answer.is_success, answer.text
    told = await reaches(running, message, *HAD)
    assert told["whatsappId"] == dead["whatsappId"]
    assert await arrived_ids(running, person) == [dead["whatsappId"]]


async def test_a_reach_out_lock_holds_back_new_contacts_and_lets_answers_go(running: Product, mishap: Any) -> None:
    stranger, asker = str(next(_people)), str(next(_people))
    cursor = await last_event(running)
    await mishap("reachout_lock", "south", seconds=600)
    await event_after(running, cursor, "session.reachout_locked")
    held = await send(running, stranger, "We have not met.", session="south")
    await say(running, asker, "Are you open?", session="south")
    await event_after(running, cursor, "message.received")
    answer = await send(running, asker, "Yes, until six.", session="south")
    told = await reaches(running, answer, *HAD)
    assert await arrived_ids(running, asker) == [told["whatsappId"]]
    waits = await look(running, held)
    assert (waits["status"], waits["waiting"]["because"]) == ("queued", "REACHOUT_LOCKED")
    assert await arrived_ids(running, stranger) == []
    await running.control.delete("/faults")
    told = await reaches(running, held, *HAD)
    assert await arrived_ids(running, stranger) == [told["whatsappId"]]
    refused = (await running.control.get("/refusals")).json()
    assert [each for each in refused if each["to"] == stranger] == []


async def test_a_used_up_allowance_of_new_chats_holds_back_new_contacts_and_lets_answers_go(
    running: Product, mishap: Any
) -> None:
    last, first, second = (str(next(_people)) for _ in range(3))
    cursor = await last_event(running)
    await mishap("newchat_cap", "south", seconds=600, total=1, used=0)
    taken = await send(running, last, "The last new chat.", session="south")
    await reaches(running, taken, *HAD)
    await event_after(running, cursor, "session.new_chats_capped")
    held = [await send(running, person, "We have not met.", session="south") for person in (first, second)]
    answer = await send(running, last, "Again.", session="south")
    await reaches(running, answer, *HAD)
    waits = [await look(running, each) for each in held]
    assert [(each["status"], each["waiting"]["because"]) for each in waits] == [("queued", "NEW_CHAT_CAP")] * 2
    await running.control.delete("/faults")
    for each in held:
        await reaches(running, each, *HAD)


async def test_a_message_that_meets_the_end_of_the_allowance_waits_and_is_sent_when_that_is_renewed(
    running: Product, person: str, mishap: Any
) -> None:
    await mishap("ack_error", "south", code=475, to=person, times=1)
    cursor = await last_event(running)
    message = await send(running, person, "One too many.", session="south")
    await event_after(running, cursor, "session.new_chats_capped")
    waits = await reaches(running, message, "queued")
    assert waits["reason"] == "NEW_CHAT_CAP"
    await mishap("newchat_cap", "south", total=9, used=1)  # WhatsApp reports that new chats may be begun
    told = await reaches(running, message, *HAD)
    assert await arrived_ids(running, person) == [told["whatsappId"]]


async def test_a_message_that_whatsapp_refuses_as_reaching_out_is_never_tried_again(
    running: Product, person: str, mishap: Any
) -> None:
    await mishap("ack_error", "south", code=463, to=person)
    failed = await reaches(running, await send(running, person, "Hello, stranger.", session="south"), "failed")
    assert (failed["reason"], failed["attempts"]) == ("NO_TRUST_TOKEN", 1)
    refused = (await running.control.get("/refusals")).json()
    assert [each["id"] for each in refused if each["to"] == person] == [failed["whatsappId"]]
    # Asked, WhatsApp knows of no lock: it is about this person, and nobody else has to wait.
    await reaches(running, await send(running, str(next(_people)), "Hello.", session="south"), *HAD)


# -- back -------------------------------------------------------------------------------------------------------------


@dataclass
class Receiver:
    """A system of the operator: takes everything and remembers it."""

    url: str = ""
    got: list[tuple[dict[str, str], str]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines) if value}
        body = (await reader.readexactly(int(headers["content-length"]))).decode()
        self.got.append((headers, body))
        writer.write(b"HTTP/1.1 204 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listening(running: Product, *events: str) -> AsyncIterator[tuple[Receiver, str]]:
    """A webhook that listens: the receiver and its secret."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/whatsapp"
    made = await running.api.post("/api/v1/webhooks", json={"url": receiver.url, "events": list(events)})
    assert made.status_code == httpx.codes.CREATED, made.text
    try:
        yield receiver, made.json()["secret"]
    finally:
        await running.api.delete(f"/api/v1/webhooks/{made.json()['id']}")
        server.close()


async def test_a_reply_becomes_a_webhook_that_the_standard_library_verifies(running: Product, person: str) -> None:
    await reaches(running, await send(running, person, "When shall we deliver?"), *HAD)
    async with listening(running, "message.received") as (receiver, secret):
        await say(running, person, "Tomorrow, please.")

        async def theirs() -> tuple[dict[str, str], str] | None:
            return next((each for each in receiver.got if person in each[1]), None)

        headers, body = await until(theirs, "the webhook was called")
    event = Verifier(secret).verify(body, headers)
    assert (event["type"], event["data"]["sessionId"]) == ("message.received", "north")
    assert event["data"]["text"] == "Tomorrow, please."
    assert event["data"]["contact"]["phone"] == person
    assert event["data"]["contact"]["lid"]
    with pytest.raises(WebhookVerificationError):
        Verifier(secret).verify(body.replace("Tomorrow", "Yesterday"), headers)


async def test_a_username_is_written_to_until_its_owner_asks_to_stop(running: Product, person: str) -> None:
    hidden = {"username": f"name.{person}", "usernameKey": "0042", "hidesNumber": True}
    (await running.control.post(f"/phones/{person}/account", json=hidden)).raise_for_status()
    body = {"to": f"@name.{person}", "message": "hello?", "sessionId": "north"}
    refused = await running.door.post("/api/v1/send", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "USERNAME_KEY_NEEDED")
    told = await reaches(running, await send(running, f"@name.{person}:0042", "hello, whoever you are"), *HAD)
    assert (await arrives(running, told["whatsappId"], person))["text"] == "hello, whoever you are"
    assert told["to"].startswith("lid:")
    await say(running, person, "STOP")

    async def is_refused() -> bool:
        answer = await running.door.post("/api/v1/send", json={**body, "to": f"@name.{person}:0042"})
        return bool(answer.status_code == 422 and answer.json()["error"]["code"] == "OPTED_OUT")

    await until(is_refused, "the opt-out holds for the username, too")


@pytest.mark.parametrize("word", ["STOP", "הסר"])
async def test_a_stop_word_ends_everything_to_that_person(running: Product, person: str, word: str) -> None:
    await reaches(running, await send(running, person, "Our news."), *HAD)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with held(running, "south"):
        waiting = [
            await send(running, person, "scheduled", sendAt=later),
            await send(running, person, "of another session", session="south"),
        ]
        other = await send(running, str(next(_people)), "for somebody else", session="south")
        await say(running, person, word)
        for message in waiting:
            ended = await reaches(running, message, "cancelled")
            assert ended["reason"] == "OPTED_OUT"
        for session in SESSIONS:
            body = {"to": person, "message": "one more", "sessionId": session}
            refused = await running.door.post("/api/v1/send", json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "OPTED_OUT")
    await reaches(running, other, *HAD)
    assert len(await arrived_ids(running, person)) == 1
    listed = (await running.api.get("/api/v1/opt-outs")).json()
    assert person in json.dumps(listed)


# -- the stream -------------------------------------------------------------------------------------------------------


async def last_event(running: Product) -> str:
    found: Any = await running.redis.xrevrange("events", count=1)
    return str(found[0][0]) if found else "0"


async def event_after(running: Product, cursor: str, kind: str) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        page = await running.api.get("/api/v1/events", params={"after": cursor, "types": kind})
        events: list[dict[str, Any]] = page.raise_for_status().json()["events"]
        return events[0] if events else None

    found: dict[str, Any] = await until(there, f"the event {kind}")
    return found


async def streamed(running: Product, cursor: str, last: str, message: str) -> list[dict[str, Any]]:
    """Follow the stream from a cursor until a message has had the event `last`; all events of that message."""
    seen = []
    headers = {"Last-Event-ID": cursor}
    async with (
        asyncio.timeout(PATIENCE_S),
        running.api.stream("GET", "/api/v1/events/stream", params={"types": "message.*"}, headers=headers) as answer,
    ):
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if event["data"].get("messageId") == message:
                seen.append(event)
                if event["type"] == last:
                    return seen
    raise AssertionError("the stream ended")


async def test_the_stream_tells_every_step_and_goes_on_after_the_last_one_that_was_seen(
    running: Product, person: str
) -> None:
    cursor = await last_event(running)
    message = await send(running, person, "Watch me.")
    first = await streamed(running, cursor, "message.sending", message)
    assert [event["type"] for event in first] == ["message.queued", "message.scheduled", "message.sending"]
    await reaches(running, message, "delivered")  # meanwhile nobody listens
    rest = await streamed(running, first[-1]["id"], "message.delivered", message)
    assert [event["type"] for event in rest] == ["message.sent", "message.delivered"]
    assert rest[0]["data"]["contact"]["phone"] == person
