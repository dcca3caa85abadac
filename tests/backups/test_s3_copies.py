"""Second copies in an S3-compatible store: a real server for the protocol, on this machine."""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from minio import Minio
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.backups.test_backup import alerts, make, provision
from tests.object_stores import SECRET, ObjectStore, object_store
from tests.processes import free_port
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.errors import BadSettings
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.settings import Settings, build, read


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    """An empty bucket."""
    with object_store("backups/wa/north") as made:
        yield made


def service_with(context: Context, control: Orchestrator, redis: Redis, **changes: Any) -> BackupService:
    known = {"backup_s3_access_key": "wa", "backup_s3_secret_key": SecretStr(SECRET)}
    settings = context.settings.model_copy(update=known | changes)
    return BackupService(make_context(settings, redis), control.pool, SentJournal(context))


async def test_each_backup_is_copied_with_its_note_and_the_newest_are_kept(
    api: httpx.AsyncClient,
    context: Context,
    control: Orchestrator,
    redis: Redis,
    store: ObjectStore,
    settings: Settings,
) -> None:
    await provision(api, settings, "north")
    service = service_with(context, control, redis, backup_s3_url=store.url, max_backups=2)
    store.client.put_object("backups", "wa/north/mine.txt", io.BytesIO(b"x"), 1)
    made = [(await make(api, service))["backups"][0] for _ in range(3)]
    assert [each["copied"] for each in made] == [True, True, True]
    expected = [f"wa/north/{each['file']}{suffix}" for each in made[1:] for suffix in ("", ".json")]
    assert store.names() == sorted([*expected, "wa/north/mine.txt"])
    found = store.client.get_object("backups", f"wa/north/{made[2]['file']}").read()
    assert hashlib.sha256(found).hexdigest() == made[2]["sha256"]


async def test_a_store_that_refuses_or_is_away_is_told_and_the_backup_here_stays(
    api: httpx.AsyncClient, context: Context, control: Orchestrator, redis: Redis, store: ObjectStore, settings: Settings,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    await provision(api, settings, "north")
    away = f"http://127.0.0.1:{free_port()}/backups"
    for url in (store.url.replace("/backups/", "/no-such-bucket/"), away, store.url.replace("/backups/", "/B_!/")):
        service = service_with(context, control, redis, backup_s3_url=url, backup_copy_dir=tmp_path / "nas")
        made = (await make(api, service))["backups"][0]
        assert made["copied"] is False
        assert (settings.backups_dir / made["file"]).is_file()
        assert (tmp_path / "nas" / made["file"]).is_file(), "one copy that fails must not cost the other"
    assert (await alerts(redis)).count("backup.copy_failed") == 3
    assert SECRET not in capsys.readouterr().out
    service = service_with(context, control, redis, backup_s3_url=store.url)
    assert (await make(api, service))["backups"][0]["copied"] is True


async def test_a_copy_that_differs_is_noticed(
    api: httpx.AsyncClient, context: Context, control: Orchestrator, redis: Redis, store: ObjectStore, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    await provision(api, settings, "north")
    upload = Minio.fput_object

    def cut_off(self: Minio, bucket: str, name: str, file: str, *rest: Any) -> Any:
        shortened = Path(file).with_name("shortened")
        shortened.write_bytes(Path(file).read_bytes()[:-1])
        return upload(self, bucket, name, str(shortened), *rest)

    monkeypatch.setattr(Minio, "fput_object", cut_off)
    service = service_with(context, control, redis, backup_s3_url=store.url)
    assert (await make(api, service))["backups"][0]["copied"] is False


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"BACKUP_S3_URL": "https://s3.example.com/b"}, "BACKUP_S3_ACCESS_KEY"),
        ({"BACKUP_S3_URL": "https://s3.example.com/b", "BACKUP_S3_ACCESS_KEY": "x"}, "BACKUP_S3_SECRET_KEY"),
        ({"BACKUP_S3_URL": "https://s3.example.com/"}, "BACKUP_S3_URL"),
        ({"BACKUP_S3_URL": f"https://user:{SECRET}@s3.example.com/b"}, "BACKUP_S3_URL"),
        ({"BACKUP_S3_URL": "s3://bucket"}, "BACKUP_S3_URL"),
    ],
)
def test_settings_that_name_no_bucket_or_no_keys_are_refused_without_repeating_them(
    given: dict[str, str], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadSettings) as refused:
        build(read(None))
    assert any(each.startswith(names) for each in refused.value.problems)
    assert SECRET not in str(refused.value)


def test_the_secret_key_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("BACKUP_S3_SECRET_KEY_FILE", str(tmp_path / "key"))
    found = build(read(None)).backup_s3_secret_key
    assert found is not None
    assert found.get_secret_value() == SECRET
