"""Restoring: what returns, what is kept, what is known about messages, and what a crash in between leaves."""

import asyncio
import errno
import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from tests.archive.history import BEGIN_MS, body_of, ended_message, found_ids
from tests.backups import archives
from tests.backups.test_backup import make, provision
from wa_orchestrator.archive.sqlite_archive import SqliteArchive
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain.campaigns.campaign import CampaignState, message_bytes
from wa_orchestrator.domain.campaigns.recipients import Recipient
from wa_orchestrator.domain.conversation import ConversationState
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.backups import journal_file, prepared_restore, restore_forecast
from wa_orchestrator.orchestrator.backups.journal_file import JournalFile
from wa_orchestrator.orchestrator.backups.prepared_restore import Changes, SavedRecords
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.orchestrator.notifications.alert_texts import alert_of
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files, credential_trash
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.backups import restored_sessions, state_dump
from wa_orchestrator.store.backups.restored_sessions import Restored
from wa_orchestrator.store.campaigns import campaign_records, campaign_rows
from wa_orchestrator.store.conversations import conversation_index
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.records import Entry
from wa_orchestrator.store.sessions import PhoneFull, slots

#: What differs on purpose after a restore: sessions rest until they start, epochs leap, and the new installation's own.
VOLATILE = {
    "status", "reason", "standing", "epoch", "version", "changed_at", "started_at", "restart_epoch", "lost_at",
    "unlinked_at",
}  # fmt: skip


async def state(context: Context) -> dict[str, Any]:
    """Everything that a backup holds, as values to compare."""
    found: dict[str, Any] = {}
    async for line in state_dump.read(context.scripts):
        if line.kind == "stream" or line.key in ("dispatch:mark", "dashboard:cursor"):
            continue
        if state_dump.session_id_of(line.key):
            found[line.key] = {name: value for name, value in line.pairs.items() if name not in VOLATILE}
        elif line.kind in ("hash", "zset"):
            found[line.key] = line.pairs
        else:
            found[line.key] = sorted(line.values) if line.kind == "set" else line.values
    return found


def stores(settings: Settings) -> dict[str, list[str]]:
    """The contents of all credentials, row by row."""
    found = {}
    for path in settings.sessions_dir.glob("*/auth.db"):
        with closing(sqlite3.connect(path)) as opened:
            found[path.parent.name] = list(opened.iterdump())
    return found


def lose_files(settings: Settings) -> None:
    shutil.rmtree(settings.sessions_dir)


async def restore(api: httpx.AsyncClient, service: BackupService, backup_id: str, **body: Any) -> dict[str, Any]:
    answer = await api.post(f"/api/v1/backups/restore/{backup_id}", json=body)
    assert answer.status_code == 202, answer.text
    await service.step()
    said: dict[str, Any] = answer.json()
    return said


async def test_what_is_restored_into_an_empty_redis_is_what_was_backed_up(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    await provision(api, settings, "north", "south")
    await api.put("/api/anti-ban/sessions/north/limits", json={"perDay": 7})
    await api.post("/api/v1/opt-outs", json={"phone": "972521110001"})
    await api.post("/api/v1/keys", json={"name": "CRM", "scopes": ["send"]})
    await api.post("/api/anti-ban/holds", json={"sessionId": "south", "why": "holiday"})
    before = await state(context)
    files = stores(settings)
    (made,) = (await make(api, service))["backups"]
    await redis.flushall()
    lose_files(settings)

    said = await restore(api, service, made["id"])
    assert said["whole"]
    assert await state(context) == before
    assert stores(settings) == files
    for session in await records.sessions(context.scripts):
        assert (session.status, session.reason) == (State.PENDING, Reason.WAITING_FOR_TURN)


async def test_a_session_that_an_operator_had_stopped_stays_so(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    await provision(api, settings, "north")
    (await api.post("/api/sessions/north/stop")).raise_for_status()
    (made,) = (await make(api, service))["backups"]
    await redis.flushall()
    await restore(api, service, made["id"])
    session = await records.session(context.scripts, "north")
    assert session is not None
    assert session.wanted == "stopped"


async def test_a_deleted_session_returns_on_its_proxy_and_the_others_are_untouched(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    await provision(api, settings, "north", "south")
    north = await records.session(context.scripts, "north")
    south = await records.session(context.scripts, "south")
    assert north is not None
    (made,) = (await make(api, service))["backups"]
    for name in await redis.keys("*north*"):
        await redis.delete(name)
    await redis.srem("sessions:all", "north")
    await redis.srem(f"proxy:sessions:{north.proxy}", "north")
    shutil.rmtree(credential_files.directory(settings, "north"))

    said = await restore(api, service, made["id"])
    assert (said["whole"], said["changes"]["returns"]) == (False, ["north"])
    assert said["changes"]["goesBack"] == ["south"]
    returned = await records.session(context.scripts, "north")
    assert returned is not None
    assert (returned.proxy, returned.created_at) == (north.proxy, north.created_at)
    assert returned.epoch > north.epoch
    assert await redis.sismember(f"proxy:sessions:{north.proxy}", "north")
    kept = await records.session(context.scripts, "south")
    assert kept is not None
    assert south is not None
    assert kept.proxy == south.proxy


async def test_a_session_that_returns_never_overfills_its_proxy(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    await provision(api, settings, "north")
    north = await records.session(context.scripts, "north")
    assert north is not None
    (made,) = (await make(api, service))["backups"]
    await redis.delete("session:north")
    await redis.srem("sessions:all", "north")
    await redis.delete(f"proxy:sessions:{north.proxy}")
    await redis.sadd(f"proxy:sessions:{north.proxy}", "a", "b", "c", "d")
    await redis.sadd("sessions:all", "a")
    await redis.hset("session:a", mapping={"id": "a", "status": "stopped"})
    await restore(api, service, made["id"], sessions=["north"])
    assert await redis.scard(f"proxy:sessions:{north.proxy}") == 4
    returned = await records.session(context.scripts, "north")
    assert returned is not None
    assert returned.proxy == ""


async def lose_session(redis: Redis, session: records.Session) -> None:
    """Delete a session as if it had been deleted: its record, its slot, its place at its phone."""
    await redis.delete(f"session:{session.id}")
    await redis.srem("sessions:all", session.id)
    await redis.srem(f"proxy:sessions:{session.proxy}", session.id)
    await redis.srem(f"phone:sessions:{session.phone}", session.id)


async def ended_restore(api: httpx.AsyncClient) -> dict[str, Any]:
    (ended, *_) = (await api.get("/api/v1/backups")).json()["latest"]
    assert ended["kind"] == "restore"
    found: dict[str, Any] = ended
    return found


async def test_a_restore_tells_before_and_after_which_sessions_do_not_come_back_and_why(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    await provision(api, settings, "west", "north", "south", "east")
    found = {str(each.id): each for each in await records.sessions(context.scripts)}
    phone = "972501000077"
    await redis.hset("session:south", "phone", phone)
    (made,) = (await make(api, service))["backups"]
    for each in ("north", "south", "west"):
        await lose_session(redis, found[each])
        shutil.rmtree(credential_files.directory(settings, each))
    await redis.sadd(f"phone:sessions:{phone}", *(f"other_{number}" for number in range(4)))
    taken = [f"guest_{number}" for number in range(4)]
    await redis.delete(f"proxy:sessions:{found['north'].proxy}")
    await redis.sadd(f"proxy:sessions:{found['north'].proxy}", *taken)
    crowded = {each for each in ("north", "west") if found[each].proxy == found["north"].proxy}

    before = await state(context)
    checked = await api.post(f"/api/v1/backups/restore/{made['id']}", json={"dryRun": True})
    changes = checked.json()["changes"]
    assert await state(context) == before, "it is told before anything is touched"
    assert (set(changes["returns"]), changes["phoneFull"]) == ({"north", "west"}, ["south"])
    assert set(changes["noRoom"]) == crowded

    await restore(api, service, made["id"])
    ended = await ended_restore(api)
    assert (ended["error"], ended["complete"], ended["sessions"]) == (None, False, 4)
    told = {each["sessionId"]: each["outcome"] for each in ended["outcomes"]}
    expected = {"north": "RESTORED", "west": "RESTORED", "east": "RESTORED"} | dict.fromkeys(crowded, "NO_ROOM")
    assert told == expected | {"south": "PHONE_FULL"}
    assert [each["outcome"] for each in ended["outcomes"]][-1] == "RESTORED", "the others come first"
    assert all(each["text"] for each in ended["outcomes"])

    events = [fields for _, fields in await redis.xrange("events")]
    (end,) = [each for each in events if each["type"].startswith("restore.") and each["type"] != "restore.session"]
    assert (end["type"], end["incomplete"]) == ("restore.incomplete", str(len(crowded) + 1))
    assert alert_of(end) is not None
    by_session = {each["session"]: each["outcome"] for each in events if each["type"] == "restore.session"}
    assert by_session == told
    assert await records.session(context.scripts, "south") is None
    assert not credential_files.directory(settings, "south").exists(), "it was not restored, so nothing of it is here"


async def test_what_the_check_promises_is_what_the_script_does(
    api: httpx.AsyncClient, settings: Settings, context: Context, redis: Redis, tmp_path: Path
) -> None:
    await provision(api, settings, "here")
    here = await records.session(context.scripts, "here")
    assert here is not None
    dice = random.Random(7)
    saved = {
        f"w{number}": {"id": f"w{number}", "phone": phone, "proxy": proxy, "status": "stopped", "epoch": "1"}
        for number in range(40)
        for phone, proxy in [(f"97250100000{dice.randrange(9)}", dice.choice([here.proxy, "back_1", "gone_1", ""]))]
    }
    backup = SavedRecords(saved, {"back_1": {"id": "back_1", "status": "OK", "url": "socks5h://a:b@127.0.0.1:9"}})
    changes = Changes(tuple(saved), (), (), (), ())
    told = await restore_forecast.with_forecast(context, backup, changes)
    done: dict[str, list[str]] = {"returns": [], "no_room": [], "phone_full": []}
    for session_id, fields in saved.items():
        proxy = await slots.sticky_proxy(context.scripts, fields["phone"]) or fields["proxy"]
        result = await restored_sessions.restore(
            context.scripts, session_id, fields, proxy=proxy, proxy_fields=backup.proxies.get(proxy, {}),
            per_proxy=settings.max_sessions_per_proxy, per_phone=settings.max_sessions_per_phone,
        )  # fmt: skip
        kind = "phone_full" if isinstance(result, PhoneFull) else "returns"
        done[kind].append(session_id)
        if isinstance(result, Restored) and proxy and not result.proxy:
            done["no_room"].append(session_id)
    assert {name: list(getattr(told, name)) for name in done} == done
    assert all(done.values()), "each of them happens"


async def test_a_restore_whose_sessions_all_came_back_is_done_and_says_so(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north", "south")
    (made,) = (await make(api, service))["backups"]
    await restore(api, service, made["id"], sessions=["south"])
    ended = await ended_restore(api)
    assert ended["complete"]
    assert [(each["sessionId"], each["outcome"]) for each in ended["outcomes"]] == [("south", "RESTORED")]
    await redis.flushall()
    await restore(api, service, made["id"])
    ended = await ended_restore(api)
    assert ended["complete"]
    assert [each["sessionId"] for each in ended["outcomes"]] == ["north", "south"]


async def test_a_restore_that_had_ended_when_its_server_died_is_neither_repeated_nor_told_twice(
    api: httpx.AsyncClient,
    settings: Settings,
    service: BackupService,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await provision(api, settings, "north")
    (made,) = (await make(api, service))["backups"]
    for body in ({"sessions": ["north"]}, {}):  # some sessions, then everything
        if not body:
            await redis.flushall()
            lose_files(settings)
        with monkeypatch.context() as dying:
            dying.setattr(prepared_restore, "finish", killed)
            with pytest.raises(OSError, match="killed here"):
                await restore(api, service, made["id"], **body)
        assert list(prepared_restore.decided(settings))
        await service.step()
        assert list(prepared_restore.decided(settings)) == []
        told = [fields["type"] for _, fields in await redis.xrange("events")]
        assert (told.count("restore.done"), told.count("restore.failed")) == (1, 0)
        assert (await ended_restore(api))["error"] is None


def killed(_directory: Path) -> None:
    raise OSError("killed here")


async def test_a_session_online_after_the_backup_goes_back_only_if_that_is_accepted_and_its_files_stay_in_the_trash(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    await provision(api, settings, "north")
    (made,) = (await make(api, service))["backups"]
    await redis.hset("session:north", "last_traffic_at", await context.scripts.now_ms() + 60_000)
    newer = archives.auth_db(credential_files.directory(settings, "north").parent / "x.db", "north", epoch=9)
    newer.replace(credential_files.directory(settings, "north") / "auth.db")
    refused = await api.post(f"/api/v1/backups/restore/{made['id']}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "BACKUP_OLDER")
    assert refused.json()["error"]["sessions"] == ["north"]
    await restore(api, service, made["id"], acceptOlder=True)
    assert await credential_files.stored_epoch(settings, "north") == 3
    (trashed,) = (await api.get("/api/v1/trash")).json()["trash"]
    assert (trashed["sessionId"], trashed["why"]) == ("north", "restored")


async def test_a_session_that_was_linked_again_after_the_backup_is_kept(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north", "south")
    (made,) = (await make(api, service))["backups"]
    await redis.hset("session:north", mapping={"jid": "972501000001:7@s.whatsapp.net", "first_connected_at": 5})
    said = await restore(api, service, made["id"])
    assert (said["changes"]["kept"], said["changes"]["goesBack"]) == (["north"], ["south"])


async def test_only_the_chosen_sessions_are_restored(
    api: httpx.AsyncClient, settings: Settings, service: BackupService
) -> None:
    await provision(api, settings, "north", "south")
    (made,) = (await make(api, service))["backups"]
    said = await restore(api, service, made["id"], sessions=["south"])
    assert (said["changes"]["goesBack"], said["changes"]["untouched"]) == (["south"], ["north"])
    answer = await api.post(f"/api/v1/backups/restore/{made['id']}", json={"sessions": ["west"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_IN_BACKUP")


async def queue_message(redis: Redis, message_id: str, phone: str = "972501000001") -> None:
    """A message that waits in the queue of a phone."""
    fields = {
        "id": message_id, "whatsapp_id": f"3EB0{message_id}", "phone": phone, "session": "north", "to": "972521110009",
        "status": "queued", "accepted_at": "1700000000000", "priority": "2", "sequence": "1", "kind": "text",
        "body": json.dumps({"kind": "text", "text": "hello"}), "pause_ms": "100",
    }  # fmt: skip
    await redis.hset(f"message:{message_id}", mapping=fields)
    await redis.zadd(f"queue:session:{phone}", {message_id: 1})
    await redis.zadd("messages:index", {message_id: 1_700_000_000_000})
    await redis.hincrby("messages:counts", "queued", 1)
    await redis.hincrby("messages:counts", "accepted", 1)
    members = {f":queued 1700000000000 {message_id}": 0, f"north:queued 1700000000000 {message_id}": 0}
    await redis.zadd("messages:statuses", members)


async def event(redis: Redis, kind: str, message_id: str, note: str = "") -> None:
    fields = {"type": kind, "at": "1", "message": message_id, "session": "north", "phone": "x", "note": note}
    await redis.xadd("events", fields)


async def test_what_left_or_may_have_left_after_the_backup_is_not_sent_again(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    journal, ahead = SentJournal(context), JournalFile(settings)
    await provision(api, settings, "north")
    await journal.step()
    for name in ("m_sent", "m_written", "m_lost", "m_returned", "m_cancelled", "m_unknown", "m_waiting"):
        await queue_message(redis, name)
    said = contacts.Incoming("north", "972501000001", "3EB0AA", "text", "972521110077")
    await contacts.receive(context.scripts, said, keep_ms=3_600_000)
    assert (await conversation_index.counts(context.scripts))[ConversationState.WAITING] == 1
    (made,) = (await make(api, service))["backups"]
    for name in ("m_sent", "m_written", "m_lost", "m_returned"):
        await ahead.note_write(name, await context.scripts.now_ms())
    for kind, name, note in (
        ("sent", "m_sent", ""),
        ("queued", "m_lost", "LEASE_EXPIRED"),  # its worker died
        ("queued", "m_returned", "HELD"),
        ("cancelled", "m_cancelled", ""),
        ("unknown", "m_unknown", "NO_ACK"),
    ):
        await event(redis, f"message.{kind}", name, note)
    await redis.xadd("events", {"type": "contact.opted_out", "at": "1", "contact_phone": "972521110077"})
    await journal.step()
    await redis.flushall()
    await SentJournal(context).step()  # the new server writes to the journal before anybody restores
    await restore(api, service, made["id"])

    told = {"m_sent": "sent", "m_cancelled": "cancelled", "m_returned": "queued", "m_waiting": "queued"}
    told |= dict.fromkeys(("m_written", "m_lost", "m_unknown"), "unknown")
    assert {name: await redis.hget(f"message:{name}", "status") for name in told} == told
    assert await redis.zrange("queue:session:972501000001", 0, -1) == ["m_returned", "m_waiting"]
    assert set(await redis.zrange("phone:sent:972501000001", 0, -1)) == {
        f"{name}#restored" for name in ("m_sent", "m_written", "m_lost", "m_unknown")
    }
    assert await redis.hexists("optouts", "972521110077")
    waiting, opened = ConversationState.WAITING, ConversationState.OPEN
    counts = await conversation_index.counts(context.scripts)
    assert (counts[waiting], counts[opened]) == (0, 1)
    assert await redis.hgetall("holds") == {}
    (ended, *_) = (await api.get("/api/v1/backups")).json()["latest"]
    assert ended["messages"] == {"sent": 1, "cancelled": 1, "unknown": 3, "waiting": 2}
    (done,) = [fields for _, fields in await redis.xrange("events") if fields["type"] == "restore.done"]
    assert done["unknown"] == "3"


@pytest.mark.parametrize(("claimed_by", "status"), [("", "unknown"), ("process-1", "queued")])
async def test_what_a_worker_held_at_the_backup_is_unknown_unless_it_was_not_yet_allowed_to_write(
    api: httpx.AsyncClient,
    settings: Settings,
    service: BackupService,
    context: Context,
    redis: Redis,
    claimed_by: str,
    status: str,
) -> None:
    await provision(api, settings, "north")
    await SentJournal(context).step()
    await queue_message(redis, "m_held")
    await redis.zrem("queue:session:972501000001", "m_held")
    await redis.hset("message:m_held", mapping={"status": "sending", "claim_epoch": "1", "claimed_by": claimed_by})
    await redis.hincrby("messages:counts", "queued", -1)
    await redis.hincrby("messages:counts", "sending", 1)
    await redis.zadd("messages:leases", {"m_held": 1})
    (made,) = (await make(api, service))["backups"]
    await redis.flushall()
    await restore(api, service, made["id"])
    if status == "queued":  # by the sweeper, whose lease it is
        assert await redis.hget("message:m_held", "status") == "sending"
    else:
        assert await redis.hget("message:m_held", "status") == status


async def test_without_the_journal_nothing_is_sent_until_a_person_has_looked(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north")
    await queue_message(redis, "m_1")
    (made,) = (await make(api, service))["backups"]
    (settings.backups_dir / journal_file.FILE).unlink(missing_ok=True)
    await redis.flushall()
    await restore(api, service, made["id"])
    assert json.loads((await redis.hget("holds", "all")) or "{}")["why"] == "RESTORED_WITHOUT_JOURNAL"
    (ended, *_) = (await api.get("/api/v1/backups")).json()["latest"]
    assert ended["messages"] == {"held": 1}


@pytest.mark.parametrize("has_journal", [True, False], ids=["journal", "no journal"])
async def test_nobody_gets_a_campaign_again_who_got_it_after_the_backup(
    api: httpx.AsyncClient,
    settings: Settings,
    service: BackupService,
    context: Context,
    redis: Redis,
    has_journal: bool,
) -> None:
    await provision(api, settings, "north")
    await SentJournal(context).step()
    people = [Recipient(row, Phone(f"97252100000{row}"), {}) for row in (1, 2, 3)]
    await campaign_records.stage(context.scripts, "c_1", people)
    await campaign_records.create(context.scripts, "c_1", 3, {"name": "one", "text": "Hello. STOP"})
    draft = await campaign_records.find(context.scripts, "c_1")
    assert draft is not None
    await campaign_records.change(context.scripts, draft, CampaignState.SENDING)
    (made,) = (await make(api, service))["backups"]
    written = f"m_{message_bytes('c_1', 2, 1).hex()}"  # after the backup it was paused once
    await JournalFile(settings).note_write(written, await context.scripts.now_ms())
    if not has_journal:
        (settings.backups_dir / journal_file.FILE).unlink()
    await redis.flushall()
    await restore(api, service, made["id"])
    restored = await campaign_records.find(context.scripts, "c_1")
    assert restored is not None
    if has_journal:
        assert restored.state == "sending"
        assert await campaign_rows.waiting(context.scripts, "c_1", most=9) == [1, 3]
        assert (await campaign_rows.tally(context.scripts, "c_1")).by_status == {"unknown": 1}
    else:
        assert (restored.state, restored.why) == ("paused", "RESTORED")


async def test_history_that_had_left_redis_is_in_the_backup_and_returns(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis, tmp_path: Path
) -> None:
    await provision(api, settings, "north")
    old = ended_message(1, session="north", body=body_of("the invoice of spring"))
    incoming = IncomingCopy("north", "3EB0AA", {"text": "thanks", "contact_phone": "97251"}, BEGIN_MS)
    await context.archive.create()
    await context.archive.put_messages([old])
    await context.archive.put_incoming([incoming])
    await context.archive.put_events([Entry(f"{BEGIN_MS}-0", {"type": "message.sent", "message": old.id})])
    (made,) = (await make(api, service))["backups"]
    assert made["hasHistory"]
    await redis.flushall()
    new = context.archive = SqliteArchive(tmp_path / "new" / "archive.sqlite")
    identity = await new.create()
    await restore(api, service, made["id"])
    await new.take_from(await copy_of(new, tmp_path / "again.db"))  # what a repetition after a crash does

    assert await new.identity() == identity
    assert (await new.messages([old.id]))[old.id] == old
    assert await found_ids(context.scripts, new, text="invoice") == [old.id]
    assert list(await new.incoming([("north", "3EB0AA")])) == [("north", "3EB0AA")]
    assert (await new.events("0", most=1))[0].fields["message"] == old.id
    await new.close()


async def copy_of(archive: SqliteArchive, target: Path) -> Path:
    assert await archive.copy_to(target)
    return target


async def test_history_is_left_out_where_the_operator_wants_that(
    api: httpx.AsyncClient, context: Context, redis: Redis, control: Orchestrator
) -> None:
    settings = context.settings.model_copy(update={"backup_history": False})
    await context.archive.create()
    service = BackupService(make_context(settings, redis), control.pool, SentJournal(context))
    (made,) = (await make(api, service))["backups"]
    assert not made["hasHistory"]


async def test_a_journal_is_shortened_to_what_the_oldest_backup_does_not_know(
    api: httpx.AsyncClient, settings: Settings, context: Context, redis: Redis, control: Orchestrator
) -> None:
    journal = SentJournal(context)
    service = BackupService(context, control.pool, journal)
    await journal.step()
    await event(redis, "message.sent", "m_old")
    await journal.step()
    await make(api, service)
    await event(redis, "message.sent", "m_new")
    await journal.step()
    text = (settings.backups_dir / journal_file.FILE).read_text()
    assert "m_new" in text
    assert "m_old" not in text
    (note,) = list(settings.backups_dir.glob("*.json"))
    cursor = json.loads(note.read_text())["cursor"]
    known = journal_file.read(settings.backups_dir / journal_file.FILE, cursor)
    assert known.covers(cursor)
    assert set(known.notes) == {"m_new"}


@pytest.mark.parametrize("torn", ['{"w": "m_1", "t": 17', "\0" * 613], ids=["a part of it", "zeros"])
async def test_what_is_noted_after_a_power_cut_or_a_full_disk_is_read_although_the_line_before_is_torn(
    settings: Settings, torn: str
) -> None:
    journal = JournalFile(settings)
    await journal.note_write("m_0", 1)
    with journal.path.open("a") as file:
        file.write(torn)
    await journal.note_write("m_2", 2)
    await journal.note_write("m_3", 3)
    assert set(journal_file.read(journal.path, "0").notes) == {"m_0", "m_2", "m_3"}
    assert len(journal.path.read_text().splitlines()) == 4


async def test_what_is_noted_while_the_journal_is_shortened_is_not_lost(settings: Settings) -> None:
    ahead, other = JournalFile(settings), JournalFile(settings)

    async def shorten() -> None:
        for number in range(20):
            await asyncio.to_thread(other.trim, f"{number}-0")

    ids = [f"m_{number}" for number in range(100)]
    await asyncio.gather(shorten(), *(ahead.note_write(each, 1000) for each in ids))
    assert set(journal_file.read(settings.backups_dir / journal_file.FILE, "0").notes) == set(ids)


async def test_a_restore_that_cannot_go_on_says_why_and_goes_on_when_it_can(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await provision(api, settings, "north")
    (made,) = (await make(api, service))["backups"]
    answer = await api.post(f"/api/v1/backups/restore/{made['id']}", json={"acceptOlder": True})
    assert answer.status_code == 202, answer.text
    with monkeypatch.context() as patched:

        async def full(*_: Any, **_more: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr(credential_trash, "discard", full)
        with pytest.raises(OSError, match="No space left"):
            await service.step()
        running = (await api.get("/api/v1/backups")).json()["running"]
        assert (running["kind"], running["session"], running["error"]) == ("restore", "north", "DISK_FULL")
    await service.step()
    listed = (await api.get("/api/v1/backups")).json()
    assert (listed["running"], listed["latest"][0]["complete"]) == (None, True)


async def test_a_restore_that_was_cut_off_anywhere_is_finished_by_the_next_leader(
    api: httpx.AsyncClient, settings: Settings, context: Context, redis: Redis, control: Orchestrator, tmp_path: Path
) -> None:
    await provision(api, settings, "north", "south")
    service = BackupService(context, control.pool, SentJournal(context))
    (made,) = (await make(api, service))["backups"]
    before = await state(context)
    for steps in range(0, 60, 3):
        await redis.flushall()
        await control.lease.step()
        shutil.rmtree(settings.sessions_dir)
        answer = await api.post(f"/api/v1/backups/restore/{made['id']}")
        assert answer.status_code == 202, answer.text
        await cut_off(BackupService(context, control.pool, SentJournal(context)), steps)
        await redis.delete("lease:backups")  # it expires
        await BackupService(context, control.pool, SentJournal(context)).step()
        assert await state(context) == before
        assert sorted(each.parent.name for each in settings.sessions_dir.glob("*/auth.db")) == ["north", "south"]
        assert list(prepared_restore.decided(settings)) == []


async def cut_off(service: BackupService, steps: int) -> None:
    """Let a restore go on for so many turns of the event loop, and end it there without a word."""
    task = asyncio.create_task(service.step())
    for _ in range(steps * 3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
