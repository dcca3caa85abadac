"""Making backups: when, how many, what is in them, and what happens if one cannot be made."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pyrage
import pytest
from redis.asyncio import Redis

from tests.backups import archives
from tests.domain.test_baileys_account import creds
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.backups import archive_reader, backup_files, session_copies
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.sessions import commands

CANARY = "canary-password-1"


async def provision(api: httpx.AsyncClient, settings: Settings, *ids: str) -> None:
    for session_id in ids:
        (await api.post("/api/sessions/provision", json={"sessionId": session_id})).raise_for_status()
        archives.auth_db(credential_files.directory(settings, session_id) / "auth.db", session_id)


async def make(api: httpx.AsyncClient, service: BackupService) -> dict[str, Any]:
    """Ask for a backup, let it be made, and return the list."""
    assert (await api.post("/api/v1/backups/create")).status_code == 202
    await service.step()
    listed: dict[str, Any] = (await api.get("/api/v1/backups")).json()
    return listed


async def run_worker(control: Orchestrator, session_id: str) -> None:
    await control.lease.step()
    assert await control.pool.start(session_id)


async def alerts(redis: Redis) -> list[str]:
    return [fields["type"] for _, fields in await redis.xrange("events")]


async def test_a_backup_has_every_session_and_is_listed_with_what_it_needs(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north", "south")
    began = datetime.now(ZoneInfo(settings.timezone)).date().isoformat()
    listed = await make(api, service)
    (made,) = listed["backups"]
    ended = datetime.now(ZoneInfo(settings.timezone)).date().isoformat()
    day = made["id"].removeprefix("backup_")
    assert day in (began, ended)
    assert (made["id"], made["file"]) == (f"backup_{day}", f"backup_{day}.zip")
    assert made["sessions"] == ["north", "south"]
    assert made["verifiedAt"]
    assert not made["encrypted"]
    assert not made["hasSecrets"]
    assert listed["running"] is None
    assert listed["latest"][0]["error"] is None
    path = settings.backups_dir / made["file"]
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as archive:
        assert "secrets.json" not in archive.namelist()
        assert CANARY not in archive.read("manifest.json").decode()
    assert CANARY not in path.with_name(f"{path.name}.json").read_text()
    assert "backup.done" in await alerts(redis)


async def test_a_session_that_was_brought_in_and_has_not_started_is_backed_up_and_restored(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north", "moved", "taken", "restored", "never-linked")
    files = {"creds.json": json.dumps(creds()), "pre-key-1.json": "{}", "sender-key-1203@g.us--97250--0.json": "{}"}
    for name in ("moved", "taken", "restored", "never-linked"):
        (credential_files.directory(settings, name) / "auth.db").unlink()
    for name, content in files.items():  # it got them from the trash, and its worker has not made a store of them
        (credential_files.directory(settings, "moved") / name).write_text(content)
    # Theirs are still in the trash: from another program, and from here.
    trash_id = await credential_files.bring_in(settings, "taken", 1_700_000_000_000, files, phone="97250", label="")
    await redis.hset("session:taken", mapping={"restore": trash_id, "phone": "97250"})
    archives.auth_db(settings.sessions_dir / ".trash" / "restored-1700000000000" / "auth.db", "restored", epoch=7)
    await redis.hset("session:restored", "restore", "restored-1700000000000")

    (made,) = (await make(api, service))["backups"]
    assert (made["sessions"], made["leftOut"]) == (["moved", "north", "restored", "taken"], [])
    await redis.flushall()
    shutil.rmtree(settings.sessions_dir)
    assert (await api.post(f"/api/v1/backups/restore/{made['id']}")).status_code == 202
    await service.step()
    for name in ("moved", "taken"):
        place = credential_files.directory(settings, name)
        assert {path.name: path.read_text() for path in place.iterdir()} == files
        assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    assert await credential_files.stored_epoch(settings, "restored") == 7
    assert await redis.hmget("session:taken", "restore", "named_phone") == ["", "97250"]
    assert await redis.hget("session:restored", "restore") == ""


async def test_a_backup_names_the_sessions_whose_credentials_from_elsewhere_cannot_be_used(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north", "moved", "from-trash")
    for name in ("moved", "from-trash"):
        (credential_files.directory(settings, name) / "auth.db").unlink()
    (credential_files.directory(settings, "moved") / "creds.json").write_text("{}")
    (settings.sessions_dir / ".trash" / "from-trash-1700000000000").mkdir(parents=True)
    await redis.hset("session:from-trash", "restore", "from-trash-1700000000000")
    (made,) = (await make(api, service))["backups"]
    assert (made["sessions"], made["leftOut"]) == (["north"], ["from-trash", "moved"])
    (credential_files.directory(settings, "moved") / "creds.json").unlink()
    await redis.hset("session:from-trash", "restore", "")
    assert (await make(api, service))["backups"][0]["leftOut"] == []


async def test_a_backup_names_the_linked_sessions_whose_credentials_are_gone(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north", "lost", "never-linked")
    for name in ("lost", "never-linked"):
        (credential_files.directory(settings, name) / "auth.db").unlink()
    await redis.hset("session:lost", "first_connected_at", 1_700_000_000_000)
    (made,) = (await make(api, service))["backups"]
    assert (made["sessions"], made["leftOut"]) == (["north"], ["lost"])


async def test_two_backups_of_a_day_have_two_names_and_the_newest_are_kept(
    api: httpx.AsyncClient, context: Context, service: BackupService, redis: Redis, control: Orchestrator
) -> None:
    settings = context.settings.model_copy(update={"max_backups": 2})
    service = BackupService(make_context(settings, redis), control.pool, SentJournal(context))
    await provision(api, settings, "north")
    seen: list[str] = []
    for _ in range(4):
        listed = await make(api, service)
        seen.append(listed["backups"][0]["id"])
    assert len(set(seen)) == 4
    assert [each["id"] for each in listed["backups"]] == [seen[3], seen[2]]


async def test_a_backup_that_cannot_be_made_is_not_kept_and_raises_an_alert(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, redis: Redis
) -> None:
    await provision(api, settings, "north", "south")
    before = await make(api, service)
    (credential_files.directory(settings, "south") / "auth.db").write_bytes(b"SQLite format 3\0 and then nothing of it")
    after = await make(api, service)
    assert after["backups"] == before["backups"]
    assert after["latest"][0]["error"]
    assert "backup.failed" in await alerts(redis)
    left = [path.name for path in settings.backups_dir.iterdir() if path.name.startswith(backup_files.UNFINISHED)]
    assert left == []


async def test_an_encrypted_backup_is_verified_has_the_secrets_and_opens_with_the_operators_key_only(
    api: httpx.AsyncClient, context: Context, redis: Redis, control: Orchestrator, tmp_path: Path
) -> None:
    key = pyrage.x25519.Identity.generate()
    settings = context.settings.model_copy(update={"backup_recipient": str(key.to_public())})
    (settings.data_dir / "secrets.json").write_text(json.dumps({"api_key": "wao_canary_secret"}))
    service = BackupService(make_context(settings, redis), control.pool, SentJournal(context))
    await provision(api, settings, "north")
    (made,) = (await make(api, service))["backups"]
    assert (made["encrypted"], made["hasSecrets"], bool(made["verifiedAt"])) == (True, True, True)
    path = settings.backups_dir / made["file"]
    assert path.suffix == ".age"
    assert b"north" not in path.read_bytes()
    archive_reader.decrypt(path, tmp_path / "plain.zip", key)
    with zipfile.ZipFile(tmp_path / "plain.zip") as archive:
        assert json.loads(archive.read("secrets.json"))["api_key"] == "wao_canary_secret"


async def test_a_second_copy_is_made_and_one_that_cannot_be_made_is_reported_and_costs_nothing(
    api: httpx.AsyncClient, context: Context, redis: Redis, control: Orchestrator, tmp_path: Path
) -> None:
    for place, copied in ((tmp_path / "nas", True), (tmp_path / "a-file" / "nas", False)):
        (tmp_path / "a-file").touch()
        settings = context.settings.model_copy(update={"backup_copy_dir": place})
        service = BackupService(make_context(settings, redis), control.pool, SentJournal(context))
        made = (await make(api, service))["backups"][0]
        assert made["copied"] is copied
        assert (place / made["file"]).is_file() is copied
    assert (await alerts(redis)).count("backup.copy_failed") == 1


async def test_a_daily_backup_is_made_once_at_its_time_and_a_missed_one_is_made_up(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context
) -> None:
    async def count() -> int:
        return len((await api.get("/api/v1/backups")).json()["backups"])

    await service.step()
    assert await count() == 0  # a new installation has nothing to make up for
    await runs.set_last_day(context.scripts, "2026-01-01")  # the server was down since
    await service.step()
    await service.step()
    assert await count() == 1
    assert await runs.last_day(context.scripts) is not None


async def test_a_scheduled_backup_that_fails_is_not_tried_in_a_circle(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context
) -> None:
    settings.backups_dir.parent.mkdir(parents=True, exist_ok=True)
    settings.backups_dir.touch()  # no directory can be made there
    await runs.set_last_day(context.scripts, "2026-01-01")
    await service.step()
    await service.step()
    listed = (await api.get("/api/v1/backups")).json()
    assert len(listed["latest"]) == 1
    assert await runs.last_day(context.scripts) == "2026-01-01"


async def test_two_servers_never_make_backups_at_once(
    api: httpx.AsyncClient, service: BackupService, context: Context, settings: Settings
) -> None:
    assert await runs.acquire(context.scripts, "another-server") is not None
    assert (await make(api, service))["backups"] == []
    assert (await api.get("/api/v1/backups")).json()["requested"]  # it is made as soon as the other is done


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_copies, "ANSWER_S", 0.2)


async def test_a_worker_that_gives_no_copy_is_stopped_for_a_moment_and_started_again(
    api: httpx.AsyncClient,
    settings: Settings,
    service: BackupService,
    control: Orchestrator,
    context: Context,
    no_patience: None,
) -> None:
    await provision(api, settings, "north")
    await run_worker(control, "north")
    await control.lease.step()
    listed = await make(api, service)
    assert listed["backups"][0]["sessions"] == ["north"]
    assert await control.pool.runner.survey() == []
    session = await records.session(context.scripts, "north")
    assert session is not None
    assert (session.status, session.reason) == (State.PENDING, Reason.WAITING_FOR_TURN)


async def test_a_worker_hands_its_copy_over_and_is_not_stopped(
    api: httpx.AsyncClient,
    settings: Settings,
    service: BackupService,
    control: Orchestrator,
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await provision(api, settings, "north")
    await run_worker(control, "north")
    await hand_over(monkeypatch, settings, lambda source, target: archives.auth_db(target, "north"))
    epoch = (await control.pool.runner.survey())[0].epoch
    listed = await make(api, service)
    assert listed["backups"][0]["sessions"] == ["north"]
    assert [each.epoch for each in await control.pool.runner.survey()] == [epoch]


async def test_a_worker_that_hands_over_a_link_makes_nobody_read_another_file(
    api: httpx.AsyncClient,
    settings: Settings,
    service: BackupService,
    control: Orchestrator,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    secret = archives.auth_db(tmp_path / "other" / "auth.db", "north", epoch=77)
    await provision(api, settings, "north")
    await run_worker(control, "north")
    await hand_over(monkeypatch, settings, lambda source, target: target.symlink_to(secret))
    made = (await make(api, service))["backups"][0]
    unpacked = tmp_path / "unpacked"
    archive_reader.unpack(settings.backups_dir / made["file"], unpacked)
    assert (unpacked / "sessions/north/auth.db").read_bytes() != secret.read_bytes()


async def hand_over(monkeypatch: pytest.MonkeyPatch, settings: Settings, write: Callable[[Path, Path], object]) -> None:
    async def run(_scripts: object, session_id: str, kind: str, **_: object) -> dict[str, Any]:
        assert kind == "copy_store"
        directory = credential_files.directory(settings, session_id)
        write(directory / "auth.db", directory / "copy-c_1.db")
        return {"ok": True, "file": "copy-c_1.db"}

    monkeypatch.setattr(commands, "run", run)


async def test_what_a_killed_server_left_is_removed_and_its_session_runs_again(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context
) -> None:
    from wa_orchestrator.domain.sessions.session import Event
    from wa_orchestrator.orchestrator.sessions import transitions

    await provision(api, settings, "north")
    await transitions.apply(context, "north", Event.BACKUP_BEGAN)
    left = settings.backups_dir / f"{backup_files.UNFINISHED}-backup_2026-01-01"
    left.mkdir(parents=True)
    (left / "archive.zip").write_bytes(os.urandom(10))
    await make(api, service)
    assert not left.exists()
    session = await records.session(context.scripts, "north")
    assert session is not None
    assert session.status == State.PENDING


@pytest.mark.parametrize("scopes", [["read"], ["send"]])
async def test_only_administrators_make_and_restore_backups(api: httpx.AsyncClient, scopes: list[str]) -> None:
    key = (await api.post("/api/v1/keys", json={"name": "limited", "scopes": scopes})).json()["key"]
    for path in ("create", "restore/backup_2026-01-01"):
        answer = await api.post(f"/api/v1/backups/{path}", headers={"X-API-Key": key})
        assert answer.status_code == 403
