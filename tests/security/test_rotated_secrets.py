"""Secrets can be replaced without disowning workers or losing credentials."""

import json
import signal
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from tests.messages.conftest import Worker
from tests.orchestrator.fakes import FakeRunner, Teller, drive
from tests.orchestrator.product import Product, running_product
from tests.orchestrator.session_steps import PHONE, linked, now
from wa_orchestrator import context as contexts
from wa_orchestrator.context import Context
from wa_orchestrator.domain.ids import SessionId
from wa_orchestrator.errors import BadSettings, Refused, Unavailable
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers import credential_keys
from wa_orchestrator.orchestrator.workers.worker_spec import spec_for
from wa_orchestrator.server import secret_rotation, secrets
from wa_orchestrator.server.credential_check import refuse_lost_key
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.sessions import stored_credentials


def _sealed(settings: Settings, session_id: str, root: SecretStr | None) -> None:
    """Credentials that are sealed with the key of a root secret; None: with one that nobody knows."""
    directory = settings.sessions_dir / session_id
    directory.mkdir(parents=True)
    key = credential_keys.key_id(credential_keys.derive(root, session_id)) if root else "unknown"
    with sqlite3.connect(directory / credential_files.DATABASE) as database:
        database.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY)")
        rows = [("session", session_id), ("sealed", 1), ("key", key)]
        database.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    database.close()


def _given(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", sessions_dir=tmp_path / "sessions")


async def test_a_worker_gets_a_key_of_its_own_and_never_the_root(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    session = await now(control.context, "s1")
    complete, _ = secrets.ensure(Settings(data_dir=control.context.settings.data_dir / "new"))
    specs = [spec_for(complete, replace(session, id=SessionId(name)), 1, "") for name in ("s1", "s2")]
    assert specs[0].secrets["AUTH_KEY"] != specs[1].secrets["AUTH_KEY"]
    assert complete.auth_key.get_secret_value() not in str([dict(each.secrets) for each in specs])


def test_a_lost_key_stops_the_start_instead_of_being_replaced(tmp_path: Path) -> None:
    settings, _ = secrets.ensure(_given(tmp_path))
    _sealed(settings, "s1", settings.auth_key)
    (settings.data_dir / secrets.FILE_NAME).unlink()
    with pytest.raises(BadSettings, match="AUTH_KEY"):
        secrets.ensure(_given(tmp_path))
    assert not (settings.data_dir / secrets.FILE_NAME).exists()


async def test_a_lost_key_stops_every_start_if_only_redis_has_the_credentials(context: Context, tmp_path: Path) -> None:
    given = _given(tmp_path).model_copy(update={"credentials": "server"})
    first, _ = secrets.ensure(given)
    for name in ("s1", "s2"):
        await _stored(context, name, first.auth_key)
    await refuse_lost_key(replace(context, settings=first))
    (given.data_dir / secrets.FILE_NAME).unlink()
    for _ in range(2):  # the second start finds a key on disk, and it is as wrong
        lost, _ = secrets.ensure(given)
        with pytest.raises(BadSettings, match=r"AUTH_KEY: .*sessions: 2.*Restore that file"):
            await refuse_lost_key(replace(context, settings=lost))


async def test_a_key_that_opens_some_credentials_is_not_lost(context: Context, tmp_path: Path) -> None:
    given = _given(tmp_path).model_copy(update={"credentials": "server"})
    first, _ = secrets.ensure(given)
    await refuse_lost_key(replace(context, settings=first))  # nothing is stored yet
    await _stored(context, "s1", SecretStr("of another installation"))
    await _stored(context, "s2", first.auth_key)
    secret_rotation.rotate(given, "auth_key")
    await refuse_lost_key(replace(context, settings=secrets.with_stored(given)))


async def test_a_redis_that_is_not_there_yet_does_not_stop_the_start(tmp_path: Path) -> None:
    given = _given(tmp_path).model_copy(update={"credentials": "server"})
    async with contexts.opened(given, f"unix://{tmp_path}/none.sock") as context:
        await refuse_lost_key(context)


def test_a_rotation_keeps_the_secret_before_and_a_second_one_waits_until_nothing_needs_it(tmp_path: Path) -> None:
    first, _ = secrets.ensure(_given(tmp_path))
    _sealed(first, "s1", first.auth_key)
    secret_rotation.rotate(_given(tmp_path), "auth_key")
    second = secrets.with_stored(_given(tmp_path))
    assert second.auth_key_previous == first.auth_key != second.auth_key
    with pytest.raises(Refused) as refusal:
        secret_rotation.rotate(_given(tmp_path), "auth_key")
    assert refusal.value.code == "STILL_SEALED_BEFORE"
    assert "s1" in refusal.value.text
    assert secrets.with_stored(_given(tmp_path)).auth_key == second.auth_key


async def test_a_copy_that_only_redis_has_keeps_the_key_before_as_a_file_does(
    context: Context, redis_url: str, tmp_path: Path
) -> None:
    given = _given(tmp_path).model_copy(update={"credentials": "server", "redis_url": SecretStr(redis_url)})
    first, _ = secrets.ensure(given)
    await _stored(context, "s1", first.auth_key)
    assert await secret_rotation.stored_unsealed_with(given) == []
    secret_rotation.rotate(given, "auth_key")
    before = await secret_rotation.stored_unsealed_with(given)
    with pytest.raises(Refused, match="s1") as refusal:
        secret_rotation.rotate(given, "auth_key", stored_before=before)
    assert refusal.value.code == "STILL_SEALED_BEFORE"

    # In the trash it counts as well.
    stored = await stored_credentials.read(context.scripts, "s1")
    assert stored is not None
    await credential_files.keep_copy(given, "s1", stored_credentials.pack(stored))
    await credential_files.discard(given, "s1", 1_700_000_000_000, phone="", label="", why="deleted")
    present = secrets.with_stored(given).auth_key
    assert secret_rotation.unsealed_with(given, present) == ["s1"]
    assert secret_rotation.unsealed_with(given, first.auth_key) == []


async def test_a_redis_that_cannot_be_asked_stops_the_rotation(tmp_path: Path) -> None:
    given = _given(tmp_path).model_copy(update={"credentials": "server"})
    secrets.ensure(given)
    with pytest.raises(Unavailable) as unavailable:
        await secret_rotation.stored_unsealed_with(given)
    assert unavailable.value.code == "REDIS_UNREACHABLE"


async def _stored(context: Context, session_id: str, root: SecretStr) -> None:
    """A session whose credentials are in Redis, sealed with the key of a root secret."""
    await context.redis.sadd(keys.SESSIONS_ALL, session_id)
    await context.redis.hset(keys.session(session_id), mapping={"id": session_id, "status": "stopped", "epoch": "3"})
    copy = _sealed_copy(root, session_id, "copy/3/1")
    await stored_credentials.put_copy(context.scripts, session_id, epoch=3, number=1, copy=copy)


def _sealed_copy(root: SecretStr, session_id: str, name: str) -> bytes:
    """What a worker seals: a mark, a nonce, the sealed bytes."""
    sealed = AESGCM(credential_keys.derive(root, session_id)).encrypt(
        b"n" * 12, b"a copy", f"{session_id}\0{name}".encode()
    )
    return b"\x01" + b"n" * 12 + sealed


def test_a_secret_that_the_operator_sets_is_not_rotated_behind_his_back(tmp_path: Path) -> None:
    secrets.ensure(_given(tmp_path))
    own = Settings(data_dir=tmp_path / "data", webhook_secret=SecretStr("kZ8-vQ2_mN5xR7pL0wJ4"))
    with pytest.raises(Refused, match="WEBHOOK_SECRET_PREVIOUS"):
        secret_rotation.rotate(own, "webhook_secret")


@pytest.mark.parametrize(("days", "accepted"), [(1, True), (8, False)])
def test_the_secret_of_workers_before_a_rotation_is_accepted_for_a_week(
    tmp_path: Path, days: int, accepted: bool
) -> None:
    first, _ = secrets.ensure(_given(tmp_path))
    secret_rotation.rotate(_given(tmp_path), "webhook_secret", datetime.now(tz=UTC) - timedelta(days=days))
    second = secrets.with_stored(_given(tmp_path))
    assert second.webhook_secret != first.webhook_secret
    assert second.webhook_secret_previous == (first.webhook_secret if accepted else None)


async def test_a_worker_that_runs_since_before_a_rotation_is_still_heard_and_its_successor_uses_the_new_secret(
    control: Orchestrator, context: Context, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = context.settings
    rotated = {"webhook_secret": SecretStr("whsec_YW5vdGhlci1zZWNyZXQtZm9yLXRlc3Rz"), "data_dir": before.data_dir}
    old = Worker(api, before, "s1", (await now(context, "s1")).epoch)
    old_secret = runner.started[-1].secrets["WEBHOOK_SECRET"]
    # The settings are frozen; a restart of the server would read these.
    object.__setattr__(before, "webhook_secret_previous", before.webhook_secret)
    old_token = Worker(api, before.model_copy(), "s1", old.epoch)
    object.__setattr__(before, "webhook_secret", rotated["webhook_secret"])
    assert (await old_token.call("claim")).status_code == 204
    assert (await teller.tell("s1", "PING", {}, secret=old_secret)).status_code == 200
    await api.post("/api/sessions/s1/restart")
    await drive(control)
    assert (await teller.tell("s1", "PING", {})).status_code == 200
    object.__setattr__(before, "webhook_secret_previous", None)
    assert (await teller.tell("s1", "PING", {}, secret=old_secret)).status_code == 401


def _seal(product: Product, session_id: str) -> str:
    database = product.home / "data" / "sessions" / session_id / credential_files.DATABASE
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as opened:
        found = dict(opened.execute("SELECT name, value FROM meta").fetchall())
    opened.close()
    return str(found["key"]) if found.get("sealed") else ""


def _expected(product: Product, session_id: str) -> str:
    stored = json.loads((product.home / "data" / secrets.FILE_NAME).read_text())
    return credential_keys.key_id(credential_keys.derive(SecretStr(stored["auth_key"]), session_id))


def test_a_real_workers_credentials_are_sealed_and_sealed_anew_after_a_rotation_without_a_scan(tmp_path: Path) -> None:
    with running_product(tmp_path, 1, provisioning_interval_ms=0) as product:
        product.link("s1")
        first = _expected(product, "s1")
        assert _seal(product, "s1") == first
        product.end(signal.SIGINT)
        secret_rotation.rotate(Settings(data_dir=product.home / "data"), "auth_key")
        product.start()
        product.until(lambda: product.connected("s1"), "s1 to be connected again")
        assert _seal(product, "s1") == _expected(product, "s1") != first
