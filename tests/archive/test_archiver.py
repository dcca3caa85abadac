"""History leaves Redis after a day, is found there, and comes back when it changes."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.archive.conftest import MakeDatabase
from tests.archive.history import DAY_MS, body_of, ended_message, found_ids, put_into_redis
from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, Scenario, settings
from wa_orchestrator.archive.archiver import Archiver
from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.factory import archive_for
from wa_orchestrator.archive.sqlite_archive import SqliteArchive
from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import AlertTest, EventType
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.messages import event_history, message_lookup
from wa_orchestrator.orchestrator.messages import receipts
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.history import ended_messages
from wa_orchestrator.store.messages import contacts, outbox

API_KEY = "wao_a-key-for-the-tests-0123456789"


@pytest.fixture
async def context(held: Scripts, clock: Clock, tmp_path: Path, make_database: MakeDatabase) -> AsyncIterator[Context]:
    """A connected session at midday, and nothing archived."""
    await clock.set(NOON)
    scenario = Scenario(held, settings(data_dir=tmp_path, api_key=API_KEY, **make_database()))
    await scenario.connect("w1", "972500000001")
    yield scenario.context
    await scenario.context.archive.close()


def archiver_of(context: Context) -> Archiver:
    return Archiver(context.settings, context.scripts, context.archive)


async def archived(context: Context, clock: Clock, **fields: str) -> str:
    """A message that ended and was archived; its id."""
    message = ended_message(1, accepted_at=NOON, ended_at=NOON, **fields)
    await put_into_redis(context.scripts, [message])
    await clock.pass_ms(DAY_MS)
    await archiver_of(context).step()
    assert await records.message(context.scripts, message.id) is None
    return message.id


async def test_a_message_leaves_redis_a_day_after_it_ended_and_not_before(context: Context, clock: Clock) -> None:
    message = ended_message(1, accepted_at=NOON, ended_at=NOON, reference="r", batch="b")
    await put_into_redis(context.scripts, [message])
    await clock.pass_ms(DAY_MS - 1)
    await archiver_of(context).step()
    assert await records.message(context.scripts, message.id)
    before = await message_lookup.message(context.scripts, context.archive, message.id)
    steps = await message_lookup.timeline(context.scripts, context.archive, message.id)
    await clock.pass_ms(1)
    await archiver_of(context).step()
    redis = context.redis
    left = [key async for key in redis.scan_iter("message*") if message.id in key or await redis.type(key) == "zset"]
    assert left == []
    assert await message_lookup.message(context.scripts, context.archive, message.id) == before
    assert await message_lookup.timeline(context.scripts, context.archive, message.id) == steps
    assert await found_ids(context.scripts, context.archive, reference="r") == [message.id]


async def test_a_late_receipt_reaches_an_archived_message(context: Context, clock: Clock) -> None:
    name = await archived(context, clock)
    await clock.pass_ms(DAY_MS)
    receipt = outbox.MessageReport("w1", "read", f"3EB0{1:018X}", clock.now_ms)
    became = await receipts.record(context, name, receipt)
    assert became == outbox.Became("read")
    assert await found_ids(context.scripts, context.archive, statuses=["sent"]) == []
    assert await found_ids(context.scripts, context.archive, statuses=["read"]) == [name]
    steps = await message_lookup.timeline(context.scripts, context.archive, name)
    assert [status for _, status, _ in steps] == ["queued", "sending", "sent", "read"]
    await clock.pass_ms(DAY_MS)
    await archiver_of(context).step()
    assert await records.message(context.scripts, name) is None
    assert await found_ids(context.scripts, context.archive, statuses=["read"]) == [name]
    assert await found_ids(context.scripts, context.archive, text="hello") == [name]


async def test_an_archived_dead_letter_can_be_retried_and_an_unknown_one_settled(
    context: Context, clock: Clock
) -> None:
    name = await archived(context, clock, status="unknown", in_doubt="1")
    gateway = Gateway(context)
    transport = httpx.ASGITransport(app=gateway.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://t", headers={"X-API-Key": API_KEY}) as client:
        assert (await client.delete(f"/api/v1/messages/{name}")).json()["error"]["code"] == "TOO_LATE"
        told = (await client.post(f"/api/v1/messages/{name}/retry")).json()
        assert told["status"] == "queued"
    receipt = outbox.MessageReport("w1", "sent", f"3EB0{1:018X}", clock.now_ms)
    became = await receipts.record(context, name, receipt)
    assert became == outbox.Became("sent")
    assert await context.redis.zcard(keys.queue("972500000001")) == 0


async def test_a_message_that_changes_while_it_is_copied_stays_in_redis(context: Context, clock: Clock) -> None:
    message = ended_message(1, accepted_at=NOON, ended_at=NOON)
    await put_into_redis(context.scripts, [message])
    (copy,) = await ended_messages.copies(context.scripts, NOON, most=1)
    await context.archive.put_messages([copy])
    receipt = outbox.MessageReport("w1", "read", message.fields["whatsapp_id"], NOON)
    await receipts.record(context, message.id, receipt)
    assert await ended_messages.remove(context.scripts, [copy]) == 0
    assert await found_ids(context.scripts, context.archive) == [message.id]
    assert await found_ids(context.scripts, context.archive, statuses=["sent"]) == []


async def test_an_older_copy_never_replaces_a_newer_one(archive: Archive) -> None:
    newer = ended_message(1, ended_at=NOON + 1, status="read")
    await archive.put_messages([newer])
    await archive.put_messages([replace(newer, ended_at=NOON, fields={**newer.fields, "status": "sent"})])
    assert (await archive.messages([newer.id]))[newer.id] == newer


async def test_texts_leave_the_archive_after_a_month_and_messages_after_three(context: Context, clock: Clock) -> None:
    name = await archived(context, clock, body=body_of("a secret word"))
    received = contacts.Incoming("w1", "97250", "IN1", "text", "97251", fields={"text": "another secret"})
    await contacts.receive(context.scripts, received, keep_ms=10**12)
    await clock.pass_ms(DAY_MS)
    await archiver_of(context).step()
    assert await found_ids(context.scripts, context.archive, text="secret") == [name]
    await clock.pass_ms(30 * DAY_MS)
    await archiver_of(context).step()
    assert await found_ids(context.scripts, context.archive, text="secret") == []
    found = await message_lookup.message(context.scripts, context.archive, name)
    assert found is not None
    assert found.body == ""
    assert await context.archive.incoming([("w1", "IN1")]) == {}
    await context.archive.shrink()
    await context.archive.close()
    whole = b"".join(path.read_bytes() for path in context.settings.data_dir.glob("archive.sqlite*"))
    assert b"secret" not in whole
    context.archive = archive_for(context.settings)
    await clock.pass_ms(60 * DAY_MS)
    await archiver_of(context).step()
    assert await message_lookup.message(context.scripts, context.archive, name) is None


async def test_events_that_were_trimmed_are_read_from_the_archive(context: Context) -> None:
    for number in range(300):
        await event_stream.emit(context.scripts, EventType.ALERT_TEST, AlertTest(str(number)))
    everything = await event_stream.read(context.scripts, most=1000)
    await archiver_of(context).step()
    assert await event_stream.trim(context.scripts, everything[-1].cursor, keep=50) > 0
    read, cursor = [], "0"
    while entries := await event_history.read(context.scripts, context.archive, after=cursor, most=70):
        read += entries
        cursor = entries[-1].cursor
    assert read == everything


async def test_a_second_archive_is_not_written(
    context: Context, clock: Clock, tmp_path: Path, make_database: MakeDatabase
) -> None:
    name = await archived(context, clock)
    other = archive_for(Settings(data_dir=tmp_path / "elsewhere", **make_database()))
    fresh = ended_message(2, accepted_at=NOON, ended_at=NOON)
    await put_into_redis(context.scripts, [fresh])
    elsewhere = context.settings.model_copy(update={"data_dir": tmp_path / "elsewhere"})
    await Archiver(elsewhere, context.scripts, other).step()
    assert await records.message(context.scripts, fresh.id)
    assert await other.messages([name, fresh.id]) == {}
    await other.close()


async def test_an_archive_that_cannot_be_read_is_said_to_be_unavailable(tmp_path: Path) -> None:
    (tmp_path / "archive.sqlite").write_bytes(b"this is no database" * 1000)
    broken = SqliteArchive(tmp_path / "archive.sqlite")
    with pytest.raises(Unavailable):
        await broken.messages(["m_1"])
    await broken.close()
