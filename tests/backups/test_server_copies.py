"""Backups with CREDENTIALS=server: what workers have stored on the server is what is copied, and what comes back."""

import json
import zipfile
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.backups import archives
from tests.backups.test_backup import make, provision, run_worker
from tests.backups.test_refused_archives import ID
from tests.backups.test_restore import restore
from tests.orchestrator.fakes import FakeRunner
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.backups import manifest
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.sessions import stored_credentials
from wa_orchestrator.store.sessions.stored_credentials import StoredCredentials

STORED = StoredCredentials(1, 7, b"\x01 sealed copy", [b"\x01 sealed change", b"\x01 and another one"])
LATER = StoredCredentials(5, 2, b"\x01 sealed later", [])


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"credentials": "server", "auth_key": SecretStr("A" * 43 + "=")})


async def store(context: Context, session_id: str, stored: StoredCredentials) -> None:
    await stored_credentials.put_back(context.scripts, session_id, stored)


def names_in(settings: Settings, file: str) -> list[str]:
    with zipfile.ZipFile(settings.backups_dir / file) as archive:
        return [name for name in archive.namelist() if name.startswith("sessions/")]


def saved_manifest(settings: Settings, file: str) -> dict[str, object]:
    with zipfile.ZipFile(settings.backups_dir / file) as archive:
        return dict(json.loads(archive.read(manifest.MANIFEST)))


async def test_what_workers_elsewhere_have_stored_comes_back_with_everything_else(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    for name in ("north", "south"):  # no directory of theirs is here
        (await api.post("/api/sessions/provision", json={"sessionId": name})).raise_for_status()
    await store(context, "north", STORED)
    (made,) = (await make(api, service))["backups"]
    assert (made["sessions"], made["needsAuthKey"]) == (["north"], True)
    assert names_in(settings, made["file"]) == ["sessions/north/server.copy"]
    await redis.flushall()

    await restore(api, service, made["id"])
    assert await stored_credentials.read(context.scripts, "north") == STORED
    assert await stored_credentials.read(context.scripts, "south") is None


async def test_a_directory_that_was_left_behind_is_not_copied_and_nobody_is_stopped_for_the_backup(
    api: httpx.AsyncClient,
    settings: Settings,
    service: BackupService,
    context: Context,
    control: Orchestrator,
    runner: FakeRunner,
) -> None:
    await provision(api, settings, "north")
    await run_worker(control, "north")
    await store(context, "north", STORED)
    before = runner.epochs()
    (made,) = (await make(api, service))["backups"]
    assert names_in(settings, made["file"]) == ["sessions/north/server.copy"]
    assert (runner.epochs(), runner.stops) == (before, [])


async def test_who_has_stored_nothing_yet_is_copied_from_its_directory_as_an_older_version_reads_it(
    api: httpx.AsyncClient, settings: Settings, service: BackupService
) -> None:
    await provision(api, settings, "north")
    (made,) = (await make(api, service))["backups"]
    assert names_in(settings, made["file"]) == ["sessions/north/auth.db"]
    assert saved_manifest(settings, made["file"])["format"] == 1


async def test_what_a_restore_replaces_goes_to_the_trash(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context
) -> None:
    for name in ("north", "south"):
        (await api.post("/api/sessions/provision", json={"sessionId": name})).raise_for_status()
        await store(context, name, STORED)
    (made,) = (await make(api, service))["backups"]
    await store(context, "north", LATER)

    await restore(api, service, made["id"], sessions=["north"])
    assert await stored_credentials.read(context.scripts, "north") == STORED
    (trashed,) = credential_files.list_trash(settings)
    copy = await credential_files.trashed_copy(settings, trashed.id)
    assert copy is not None
    assert (trashed.session_id, stored_credentials.unpack(copy)) == ("north", LATER)


async def test_a_server_whose_workers_ask_for_nothing_refuses_such_a_backup(
    api: httpx.AsyncClient, settings: Settings, service: BackupService, context: Context, redis: Redis
) -> None:
    (await api.post("/api/sessions/provision", json={"sessionId": "north"})).raise_for_status()
    await store(context, "north", STORED)
    (made,) = (await make(api, service))["backups"]
    assert saved_manifest(settings, made["file"])["format"] == 2
    await redis.flushall()
    context.settings = settings.model_copy(update={"credentials": "local"})
    answer = await api.post(f"/api/v1/backups/restore/{made['id']}", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "BACKUP_CREDENTIALS")


@pytest.mark.parametrize("content", [b"", b"3 1\n", b"3 1\n\0\0\0\x09cut off", b"3 1\n\0\0", b"three 1\n\0\0\0\x01x"])
async def test_a_copy_that_is_cut_off_is_refused(
    api: httpx.AsyncClient, settings: Settings, tmp_path: Path, content: bytes
) -> None:
    files = archives.contents(tmp_path / "made")
    del files["sessions/north/auth.db"]
    files["sessions/north/server.copy"] = content
    session = {"id": "north", "how": "server", "sealed": True}
    entries = [("manifest.json", archives.manifest(files, format=2, sessions=[session])), *files.items()]
    archives.write(settings.backups_dir / f"{ID}.zip", entries)
    answer = await api.post(f"/api/v1/backups/restore/{ID}", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "BACKUP_DAMAGED")
