"""Credentials: taken over, kept, sealed, given back, and never replaced by a new identity."""

import asyncio
import base64
import json
import os
import secrets
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from tests.small_disk import fill, small_disk
from tests.worker import harness
from tests.worker.harness import Rig, Session, new_phone
from tests.worker.plain import plain_client

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def linked_and_stopped(rig: Rig, **settings: str) -> Session:
    session = rig.session(**settings)
    await session.link()
    assert await session.worker.terminate() == 0
    return session


async def refused(session: Session, **more: str) -> int:
    seen = len(session.station.events)
    await session.start(prefix=(), options=(), **more)
    await session.event("AUTH_FAILURE", after=seen, reason="CREDENTIALS_UNREADABLE")
    return await session.worker.ended()


async def test_a_multi_file_directory_is_taken_over_without_a_scan_and_its_sessions_still_decrypt(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    async with plain_client(rig.world, session.directory) as client:
        qr = await client.event("qr")
        await rig.world.whatsapp.scan(session.phone, qr["qr"])
        await client.event("open")
        await client.do("send", to=f"{friend}@s.whatsapp.net", text="from the old client")
        await rig.world.whatsapp.send_text(friend, session.phone, "a session exists now")
        await client.event("message", text="a session exists now")
    names = {path.name for path in session.directory.iterdir()}
    assert "creds.json" in names
    assert any(name.startswith("session-") for name in names)
    await session.start()
    await session.event("CONNECTED", phoneNumber=session.phone)
    await rig.world.whatsapp.send_text(friend, session.phone, "still in the same session")
    await session.event("MESSAGE_RECEIVED", text="still in the same session")
    await rig.server.acked(await session.say(friend, "yes"))
    assert all(event["type"] != "QR_CODE" for event in session.station.events)


async def test_an_export_is_a_multi_file_directory_that_an_ordinary_client_logs_in_with(
    rig: Rig, tmp_path: Path
) -> None:
    session, friend = await linked_and_stopped(rig), new_phone()
    export = await harness.launch(session.environment(), "export", str(tmp_path / "out"))
    assert await export.ended() == 0
    assert stat.S_IMODE((tmp_path / "out" / "creds.json").stat().st_mode) == 0o600
    async with plain_client(rig.world, tmp_path / "out") as client:
        assert (await client.event("open"))["id"].startswith(session.phone)
        await rig.world.whatsapp.send_text(friend, session.phone, "hello, export")
        await client.event("message", text="hello, export")


async def test_only_the_owner_may_read_what_is_stored(rig: Rig) -> None:
    session = rig.session()
    await session.start()
    await session.event("QR_CODE")
    assert stat.S_IMODE(session.directory.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in session.directory.iterdir() if path.is_file()}
    assert "auth.db" in modes
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty"])
async def test_damaged_credentials_stop_the_worker_and_stay_as_they_are(rig: Rig, damage: str) -> None:
    session = rig.session()
    await session.start()
    await session.event("QR_CODE")
    await session.worker.terminate()
    path = session.directory / "auth.db"
    whole = path.read_bytes()
    path.write_bytes({"garbage": secrets.token_bytes(len(whole)), "truncated": whole[:3000], "empty": b""}[damage])
    for suffix in ("-wal", "-shm"):
        (session.directory / f"auth.db{suffix}").unlink(missing_ok=True)
    damaged = path.read_bytes()
    assert await refused(session) == 20
    assert path.read_bytes() == damaged


async def test_a_half_written_multi_file_directory_is_refused(rig: Rig) -> None:
    session = rig.session()
    session.directory.mkdir()
    (session.directory / "creds.json").write_text('{"noiseKey":')
    assert await refused(session) == 20
    (session.directory / "creds.json").unlink()
    (session.directory / "pre-key-1.json").write_text("{}")
    assert await refused(session) == 20
    assert not (session.directory / "auth.db").exists()


async def test_credentials_of_another_session_are_refused(rig: Rig) -> None:
    theirs, ours = rig.session(), rig.session()
    await theirs.start()
    await theirs.event("QR_CODE")
    await theirs.worker.terminate()
    shutil.copytree(theirs.directory, ours.directory)
    assert await refused(ours) == 20


async def test_with_a_key_nothing_is_readable_on_disk_and_only_that_key_opens_it(rig: Rig, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(base64.b64encode(os.urandom(32)).decode())
    session = await linked_and_stopped(rig)
    first = session.station.events[-1]
    connected = await session.restart(AUTH_KEY_FILE=str(key))  # what was plain is sealed now
    await rig.server.acked(await session.say(new_phone(), "canary-of-a-sealed-text"))
    await session.worker.terminate()
    stored = b"".join(path.read_bytes() for path in session.directory.iterdir() if path.name.startswith("auth.db"))
    rows = sqlite3.connect(session.directory / "auth.db").execute("SELECT value FROM keys").fetchall()
    assert {value[0] for (value,) in rows} == {1}
    assert b"canary-of-a-sealed-text" not in stored
    other = tmp_path / "other"
    other.write_text(base64.b64encode(os.urandom(32)).decode())
    assert await refused(session, AUTH_KEY_FILE=str(other)) == 20
    assert await refused(session) == 20
    again = await session.restart(AUTH_KEY_FILE=str(key))
    assert again["data"]["fingerprint"] == connected["data"]["fingerprint"]
    assert first["sessionId"] == session.id


async def test_a_second_worker_of_the_same_epoch_does_not_touch_the_directory(rig: Rig, linked: Session) -> None:
    second = await harness.launch(linked.environment())
    assert await second.ended() == 21
    await rig.server.acked(await linked.say(new_phone(), "undisturbed"))


async def test_a_newer_epoch_takes_the_directory_over_and_the_older_one_ends_fenced(rig: Rig) -> None:
    session = rig.session(PING_INTERVAL_MS="300")
    await session.link()
    old = session.worker
    seen = len(session.station.events)
    epoch_at_server = session.station.epoch
    await session.start()
    session.station.epoch = epoch_at_server  # the server tells nobody: the file alone must fence
    await session.event("CONNECTED", after=seen)
    assert await old.ended() == 22
    session.epoch -= 1
    assert await (await harness.launch(session.environment())).ended() == 22


async def test_unfinished_files_of_a_killed_first_start_do_not_count_as_an_identity(rig: Rig) -> None:
    session = rig.session()
    session.directory.mkdir()
    (session.directory / "auth.new").write_bytes(b"half a database")
    await session.start()
    await session.event("QR_CODE")
    assert json.loads(session.worker.raw[0])["event"] == "worker.started"


async def test_a_full_disk_is_not_taken_for_lost_credentials(rig: Rig, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=4) as disk:
        session = rig.session()
        session.directory = disk / "auth"
        first = await session.link()
        await session.worker.terminate()
        ballast, seen = fill(disk), len(session.station.events)
        await session.start()
        assert await session.worker.ended() == 13, session.worker.text
        assert not [event for event in session.station.events[seen:] if event["type"] == "AUTH_FAILURE"]
        ballast.unlink()
        again = await session.restart()
        assert again["data"]["fingerprint"] == first["data"]["fingerprint"]


async def test_a_worker_whose_disk_runs_full_ends_although_it_cannot_report_it(rig: Rig, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=4) as disk:
        session = rig.session()
        session.directory = disk / "auth"
        await session.link()
        fill(disk)
        ended = asyncio.ensure_future(session.worker.ended())
        while not ended.done():  # the database may have room left in the files that it has already
            await rig.world.whatsapp.send_text(new_phone(), session.phone, "nowhere to keep this" * 200)
            await asyncio.wait([ended], timeout=0.5)
        assert await ended == 50
