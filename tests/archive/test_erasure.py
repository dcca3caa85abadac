"""One person can be exported and erased everywhere; an opt-out survives."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.archive.conftest import MakeDatabase
from tests.archive.history import DAY_MS, body_of, ended_message, found_ids, put_into_redis
from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, Scenario, settings
from wa_orchestrator.archive.archiver import Archiver
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.api import contacts as contact_routes
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.events.webhooks import Delivery, Webhook
from wa_orchestrator.store.messages import admission, contacts, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import MessageChanges
from wa_orchestrator.web.app import make_app

API_KEY = "wao_a-key-for-the-tests-0123456789"
PERSON, OTHER, LID = "972511111111", "972522222222", "88005553535"


@pytest.fixture
async def context(held: Scripts, clock: Clock, tmp_path: Path, make_database: MakeDatabase) -> AsyncIterator[Context]:
    """A person of whom everything is stored, fresh and archived, and another one."""
    await clock.set(NOON)
    scenario = Scenario(held, settings(data_dir=tmp_path, api_key=API_KEY, **make_database()))
    await scenario.connect("w1", "972500000001")
    made = scenario.context
    for number, phone in ((1, PERSON), (2, OTHER)):
        await put_into_redis(
            held, [ended_message(number, ended_at=NOON, accepted_at=NOON, to=phone, body=body_of("old secret"))]
        )
        await _receive(held, f"OLD{number}", phone)
    await clock.pass_ms(DAY_MS)
    await Archiver(made.settings, held, made.archive).step()
    for number, phone in ((3, PERSON), (4, OTHER)):
        fresh = ended_message(
            number, ended_at=clock.now_ms, accepted_at=clock.now_ms, to=phone, body=body_of("new secret")
        )
        await put_into_redis(held, [fresh])
        await _receive(held, f"NEW{number}", phone)
    await contacts.opt_out(held, PERSON, word="leave me alone", via="reply")
    for phone in (PERSON, OTHER):  # as a limited key has written to them
        await held.redis.set(keys.affinity(f"k_0123456789ab:{phone}"), "w1")
    await webhooks.put(held, Webhook("h1", "https://example.com/", ("*",), "s", "0", 1))
    for event, phone in (("5-0", PERSON), ("6-0", OTHER)):
        body = json.dumps({"data": {"contact": {"phone": phone, "lid": None}, "text": "new secret"}})
        await webhooks.fan_out(
            held,
            after=await webhooks.cursor(held),
            until=event,
            deliveries=[Delivery("h1", event, "message.received", body)],
        )
    yield made
    await made.archive.close()


async def _receive(scripts: Scripts, whatsapp_id: str, phone: str) -> None:
    lid = LID if phone == PERSON else ""
    received = contacts.Incoming("w1", "972500000001", whatsapp_id, "text", phone, lid, fields={"text": "their secret"})
    await contacts.receive(scripts, received, keep_ms=10**12)


async def _erase(context: Context, clock: Clock) -> None:
    """Ask for it, and let the leader make both passes."""
    archiver = Archiver(context.settings, context.scripts, context.archive)
    await context.redis.hset(keys.ERASURES, PERSON, "0")
    await archiver.step()
    await clock.pass_ms(60_000)
    await archiver.step()
    assert await context.redis.hgetall(keys.ERASURES) == {}


async def _everything_in_redis(context: Context) -> str:
    """All keys and values, as text."""
    redis: Any = context.redis
    found = []
    async for key in redis.scan_iter():
        match await redis.type(key):
            case "hash":
                value = await redis.hgetall(key)
            case "stream":
                value = await redis.xrange(key)
            case "zset":
                value = await redis.zrange(key, 0, -1)
            case "set":
                value = await redis.smembers(key)
            case "list":
                value = await redis.lrange(key, 0, -1)
            case _:
                value = await redis.get(key)
        if key != keys.OPT_OUTS:
            found.append(f"{key} {value}")
    return "\n".join(found)


async def test_an_erased_person_is_nowhere_and_others_stay(context: Context, clock: Clock) -> None:
    await _erase(context, clock)
    left = await _everything_in_redis(context)
    assert PERSON not in left
    assert LID not in left
    assert OTHER in left
    assert await found_ids(context.scripts, context.archive, to=PERSON) == []
    assert len(await found_ids(context.scripts, context.archive, to=OTHER)) == 2
    assert len(await found_ids(context.scripts, context.archive, text="secret")) == 2
    assert await context.archive.copy_to(context.settings.data_dir / "archive.sqlite-whole")
    await context.archive.close()
    files = b"".join(path.read_bytes() for path in context.settings.data_dir.glob("archive.sqlite*"))
    assert PERSON.encode() not in files
    assert OTHER.encode() in files


@pytest.fixture
async def hidden(context: Context, clock: Clock) -> Context:
    """They were written to by their LID too, when their phone was not known: fresh, archived and waiting."""
    scripts = context.scripts
    old = ended_message(5, ended_at=NOON, accepted_at=NOON, to=f"lid:{LID}", body=body_of("by lid, old"))
    await put_into_redis(scripts, [old])
    await Archiver(context.settings, scripts, context.archive).step()
    new_ms = clock.now_ms
    new = ended_message(6, ended_at=new_ms, accepted_at=new_ms, to=f"lid:{LID}", body=body_of("by lid, new"))
    await put_into_redis(scripts, [new])
    fields = MessageChanges(kind="text", body=body_of("by lid, waiting"))
    waiting = admission.NewMessage(f"m_{7:018x}", f"3EB0{7:018X}", "972500000001", "w1", f"lid:{LID}", fields=fields)
    assert isinstance(await admission.accept(scripts, waiting, admission.Room(10, 10, 0)), admission.Accepted)
    assert await queues.route(scripts, Place(waiting.id, "972500000001", "w1"), to=f"lid:{LID}") == queues.Queued()
    body = json.dumps({"data": {"to": f"lid:{LID}", "text": "by lid"}})
    deliveries = [Delivery("h1", "7-0", "message.sent", body)]
    await webhooks.fan_out(scripts, after=await webhooks.cursor(scripts), until="7-0", deliveries=deliveries)
    return context


async def test_what_was_sent_to_their_lid_is_erased_too(hidden: Context, clock: Clock) -> None:
    await _erase(hidden, clock)
    left = await _everything_in_redis(hidden)
    assert LID not in left
    assert "by lid" not in left
    assert await found_ids(hidden.scripts, hidden.archive, to=f"lid:{LID}") == []
    assert await found_ids(hidden.scripts, hidden.archive, text="lid") == []


async def test_what_was_sent_to_their_lid_is_exported_too(hidden: Context) -> None:
    transport = httpx.ASGITransport(app=make_app(hidden, [contact_routes.ContactRoutes(hidden)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://t", headers={"X-API-Key": API_KEY}) as client:
        told = await client.get(f"/api/v1/contacts/{PERSON}/export")
    lines = [json.loads(line) for line in told.text.splitlines()]
    texts = [line["content"]["text"] for line in lines if line["kind"] == "message"]
    assert sorted(texts) == ["by lid, new", "by lid, old", "by lid, waiting", "new secret", "old secret"]


async def test_an_erased_person_who_opted_out_is_never_written_to_again(context: Context, clock: Clock) -> None:
    await _erase(context, clock)
    known = await contacts.opt_out_of(context.scripts, PERSON)
    assert known is not None
    assert (known.word, known.via) == ("", "reply")
    message = admission.NewMessage(f"m_{9:018x}", f"3EB0{9:018X}", "972500000001", "w1", PERSON)
    assert await admission.accept(context.scripts, message, admission.Room(10, 10, 0)) == admission.OptedOut()


async def test_an_export_has_everything_of_one_person_and_nothing_of_others(context: Context) -> None:
    transport = httpx.ASGITransport(app=make_app(context, [contact_routes.ContactRoutes(context)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://t", headers={"X-API-Key": API_KEY}) as client:
        told = await client.get(f"/api/v1/contacts/{PERSON}/export")
    lines = [json.loads(line) for line in told.text.splitlines()]
    assert [line["kind"] for line in lines] == [
        "contact", "conversation", "message", "message", "incoming", "incoming",
    ]  # fmt: skip
    assert (lines[0]["phone"], lines[0]["lid"]) == (PERSON, LID)
    assert [line["content"]["text"] for line in lines[2:4]] == ["new secret", "old secret"]
    assert {line["message"]["whatsapp_id"] for line in lines[4:]} == {"NEW3", "OLD1"}
    assert OTHER not in told.text


async def test_a_person_known_by_lid_alone_is_exported_and_erased(
    context: Context, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contact_routes, "_WAIT_S", 0.01)
    hidden = "123456789012345"
    received = contacts.Incoming("w1", "972500000001", "LID1", "text", "", hidden, fields={"text": "their secret"})
    await contacts.receive(context.scripts, received, keep_ms=10**12)
    now_ms = clock.now_ms
    sent = ended_message(5, ended_at=now_ms, accepted_at=now_ms, to=f"lid:{hidden}", body=body_of("a hidden secret"))
    await put_into_redis(context.scripts, [sent])
    transport = httpx.ASGITransport(app=make_app(context, [contact_routes.ContactRoutes(context)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://t", headers={"X-API-Key": API_KEY}) as client:
        told = await client.get(f"/api/v1/contacts/lid:{hidden}/export")
        lines = [json.loads(line) for line in told.text.splitlines()]
        assert [line["kind"] for line in lines] == ["contact", "conversation", "message", "incoming"]
        assert (lines[0]["phone"], lines[0]["lid"]) == (None, hidden)
        known = await client.get(f"/api/v1/contacts/lid:{LID}/export")
        assert json.loads(known.text.splitlines()[0])["phone"] == PERSON
        digits = await client.delete(f"/api/v1/contacts/{hidden}")
        assert (digits.status_code, digits.json()["error"]["code"]) == (422, "RECIPIENT_IS_LID")
        asked = await client.delete(f"/api/v1/contacts/lid:{hidden}")
        assert (asked.status_code, asked.json()["phone"]) == (202, f"lid:{hidden}")
    archiver = Archiver(context.settings, context.scripts, context.archive)
    await archiver.step()
    await clock.pass_ms(60_000)
    await archiver.step()
    left = await _everything_in_redis(context)
    assert hidden not in left
    assert OTHER in left
    assert await found_ids(context.scripts, context.archive, to=f"lid:{hidden}") == []


async def test_a_request_that_no_leader_carries_out_is_kept(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact_routes, "_WAIT_S", 0.01)
    transport = httpx.ASGITransport(app=make_app(context, [contact_routes.ContactRoutes(context)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://t", headers={"X-API-Key": API_KEY}) as client:
        told = await client.delete(f"/api/v1/contacts/+{PERSON}")
    assert (told.status_code, told.json()) == (202, {"phone": PERSON, "erased": False, "optedOut": True})
    assert await context.redis.hget(keys.ERASURES, PERSON) == "0"


async def test_texts_leave_webhook_deliveries_when_their_retention_ends(context: Context) -> None:
    assert await webhooks.erase_deliveries_until(context.scripts, 5) == 1
    assert await webhooks.delivery(context.scripts, "h1", "5-0") is None
    assert await webhooks.delivery(context.scripts, "h1", "6-0")
    assert await context.redis.zrange(keys.WEBHOOK_DUE, 0, -1) == ["h1/6-0"]
