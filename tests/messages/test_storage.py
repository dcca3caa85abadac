"""The stores of files: one suite over a directory and over a bucket of a real S3 server; then uploads in a bucket."""

import io
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from minio import datatypes
from PIL import Image
from pydantic import SecretStr

from tests.gateway.conftest import make_settings
from tests.messages.test_conversion import content_of
from tests.object_stores import SECRET, ObjectStore, object_store
from tests.processes import free_port
from wa_orchestrator.domain.messages.content import MediaKind
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.messages import storage, uploads
from wa_orchestrator.messages.conversion import media_files
from wa_orchestrator.messages.storage import Shelf, bucket
from wa_orchestrator.messages.storage.contract import FileStore
from wa_orchestrator.settings import Settings

MIB = 1024 * 1024
PICTURE = io.BytesIO()
Image.new("RGB", (64, 32), "red").save(PICTURE, "PNG")
KEYS: dict[str, Any] = {"media_s3_access_key": "wa", "media_s3_secret_key": SecretStr(SECRET)}


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store("media/wa") as made:
        yield made


@pytest.fixture
def place(server: ObjectStore) -> str:
    return f"{server.url}/{secrets.token_hex(4)}"


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    (tmp_path / "uploads").mkdir()
    changes = {"media_s3_url": request.getfixturevalue("place"), **KEYS} if request.param == "bucket" else {}
    return storage.stores(make_settings(tmp_path, **changes), Shelf.UPLOADS)[0]


def file(tmp_path: Path, content: bytes = b"content") -> Path:
    path = tmp_path / "uploads" / f"source-{secrets.token_hex(4)}"
    path.write_bytes(content)
    return path


async def read(store: FileStore, name: str, start: int = 0, length: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in store.read(name, start, length)])


async def test_a_file_is_moved_found_read_and_removed(store: FileStore, tmp_path: Path) -> None:
    source = file(tmp_path)
    await store.put(source, "a")
    found = await store.find("a")
    assert found is not None
    assert (found.name, found.size, source.exists()) == ("a", 7, False)
    assert found.at == pytest.approx(time.time(), abs=60)
    assert (await read(store, "a"), await read(store, "a", 2, 3), await read(store, "a", 5)) == (
        b"content", b"nte", b"nt",
    )  # fmt: skip
    async with store.on_disk("a") as path:
        assert path.read_bytes() == b"content"
    assert [each.name for each in await store.listed()] == ["a"]
    await store.remove("a")
    await store.remove("a")
    assert (await store.find("a"), await store.listed()) == (None, [])


async def test_what_is_not_there_is_not_found(store: FileStore) -> None:
    assert await store.find("a") is None
    with pytest.raises(FileNotFoundError):
        await read(store, "a")
    with pytest.raises(FileNotFoundError):
        await store.rename("a", "b")


async def test_a_renamed_file_replaces_another_and_is_new(store: FileStore, tmp_path: Path) -> None:
    await store.put(file(tmp_path, b"new"), "a.part")
    await store.put(file(tmp_path, b"old"), "a")
    await store.rename("a.part", "a")
    assert await read(store, "a") == b"new"
    assert [each.name for each in await store.listed()] == ["a"]


async def test_the_time_of_a_file_only_moves_forward(store: FileStore, tmp_path: Path) -> None:
    soon, later = time.time() + 7200, time.time() + 720_000
    await store.put(file(tmp_path), "a.json", at=soon)
    await store.touch("a.json", later)
    await store.touch("a.json", soon)
    await store.put(file(tmp_path, b"changed"), "a.json", at=soon)
    found = await store.find("a.json")
    assert found is not None
    assert found.at == pytest.approx(later, abs=3600)
    assert found.at >= later - 1
    assert await read(store, "a.json") == b"changed"
    assert [(each.name, each.at) for each in await store.listed()] == [("a.json", found.at)]


async def test_a_name_that_another_one_begins_with_is_a_file_of_its_own(store: FileStore, tmp_path: Path) -> None:
    for name in ("a", "ab", "a.json"):
        await store.put(file(tmp_path, name.encode()), name, at=time.time() + 7200)
    await store.remove("a")
    assert sorted(each.name for each in await store.listed()) == ["a.json", "ab"]
    found = await store.find("a.json")
    assert found is not None
    assert found.at > time.time() + 7000


async def test_a_long_file_goes_in_parts_and_comes_back_whole(store: FileStore, tmp_path: Path) -> None:
    content = secrets.token_bytes(9 * MIB)  # more than one part
    await store.put(file(tmp_path, content), "a")
    assert await read(store, "a") == content


async def test_what_a_crash_left_in_a_bucket_is_tidied_after_a_day(
    server: ObjectStore, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path, media_s3_url=place, **KEYS)
    (tmp_path / "uploads").mkdir()
    store = storage.stores(settings, Shelf.UPLOADS)[0]
    await store.put(file(tmp_path), "whole", at=time.time() + 7200)
    await store.touch("never-came", time.time())
    inside = place.partition("/media/")[2]
    begun = server.client._create_multipart_upload("media", f"{inside}/uploads/cut-off", {})
    assert begun

    def unfinished() -> int:
        return len(server.client._list_multipart_uploads("media", prefix=inside).uploads)

    # The test's server says 2010 of every upload.
    monkeypatch.setattr(datatypes, "from_iso8601utc", lambda _: datetime.now(UTC))
    await store.tidy()
    assert (unfinished(), len([each for each in server.names() if each.startswith(inside)])) == (1, 3)
    monkeypatch.setattr(bucket, "time", SimpleNamespace(time=lambda: time.time() + 25 * 3600))
    await store.tidy()
    assert (unfinished(), len([each for each in server.names() if each.startswith(inside)])) == (0, 2)
    assert await read(store, "whole") == b"content"


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def shared(directory: Path, place: str, **changes: Any) -> Settings:
    """The settings of one of several machines."""
    return make_settings(directory, media_s3_url=place, **KEYS, **changes)


async def test_an_upload_of_one_machine_is_sent_by_another(place: str, tmp_path: Path) -> None:
    one, other = (shared(tmp_path / name, place) for name in ("one", "other"))
    made = await uploads.save(one, chunks(PICTURE.getvalue()), mimetype="image/png", filename="a.png", owner="k_1")
    found = await uploads.open(other, made.id)
    assert found is not None
    assert (found.mimetype, found.filename, found.owner, found.size) == ("image/png", "a.png", "k_1", made.size)
    described = await media_files.prepared(other, found, MediaKind.IMAGE)
    again = await uploads.open(one, made.id)
    assert again is not None
    assert again.facts == described.facts
    assert again.facts["width"]
    assert await content_of(again) == PICTURE.getvalue()
    assert not list((tmp_path / "one" / "uploads").iterdir())


async def test_uploads_in_a_bucket_end_unless_a_message_uses_them(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = shared(tmp_path, place)
    unused, used = [await uploads.save(settings, chunks(b"x"), mimetype="image/png") for _ in range(2)]
    await uploads.keep_for(used, uploads.USED_S)
    assert await uploads.sweep(settings) == 0
    monkeypatch.setattr(uploads, "time", SimpleNamespace(time=lambda: time.time() + uploads.UNUSED_S + 3700))
    assert await uploads.open(settings, unused.id) is None
    assert await uploads.sweep(settings) == 1
    assert await uploads.open(settings, used.id) is not None
    monkeypatch.setattr(uploads, "time", SimpleNamespace(time=lambda: time.time() + uploads.USED_S + 3700))
    assert await uploads.sweep(settings) == 1
    assert await storage.stores(settings, Shelf.UPLOADS)[0].listed() == []


async def test_the_quota_of_a_key_counts_what_other_machines_stored(place: str, tmp_path: Path) -> None:
    one, other = (shared(tmp_path / name, place, upload_quota_mb=1) for name in ("one", "other"))
    await uploads.save(one, chunks(bytes(MIB // 2 + 1)), mimetype="application/pdf", owner="k_1")
    with pytest.raises(Refused) as refused:
        await uploads.save(other, chunks(bytes(MIB // 2)), mimetype="application/pdf", owner="k_1")
    assert refused.value.code == "UPLOAD_QUOTA"
    await uploads.save(other, chunks(bytes(MIB // 2)), mimetype="application/pdf", owner="k_2")


async def test_uploads_from_before_a_bucket_was_set_are_still_sent(place: str, tmp_path: Path) -> None:
    made = await uploads.save(make_settings(tmp_path), chunks(b"x"), mimetype="image/png")
    found = await uploads.open(shared(tmp_path, place), made.id)
    assert found is not None
    await uploads.keep_for(found, uploads.USED_S)
    assert await content_of(found) == b"x"


async def test_a_store_that_is_away_refuses_an_upload_and_nothing_is_left(tmp_path: Path) -> None:
    settings = shared(tmp_path, f"http://127.0.0.1:{free_port()}/media")
    with pytest.raises(Unavailable) as refused:
        await uploads.save(settings, chunks(b"x"), mimetype="image/png")
    assert refused.value.code == "FILE_STORE_UNAVAILABLE"
    assert not list((tmp_path / "uploads").iterdir())
    assert SECRET not in refused.value.text


async def test_a_crash_between_file_and_description_leaves_nothing_for_good(
    server: ObjectStore, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, inside = shared(tmp_path, place), place.partition("/media/")[2]
    server.client.put_object("media", f"{inside}/uploads/u_{'1' * 32}", io.BytesIO(b"x"), 1)
    assert await uploads.open(settings, "u_" + "1" * 32) is None
    assert await uploads.sweep(settings) == 0
    monkeypatch.setattr(uploads, "time", SimpleNamespace(time=lambda: time.time() + uploads.UNUSED_S + 60))
    assert await uploads.sweep(settings) == 1
    assert not [each for each in server.names() if each.startswith(inside)]


async def test_machines_may_share_a_directory_instead(tmp_path: Path) -> None:
    one, other = (make_settings(tmp_path / name, media_dir=tmp_path / "shared") for name in ("one", "other"))
    made = await uploads.save(one, chunks(b"x"), mimetype="image/png")
    found = await uploads.open(other, made.id)
    assert found is not None
    assert await content_of(found) == b"x"
