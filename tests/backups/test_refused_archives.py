"""Archives that are damaged, hostile, too new or locked are refused with the reason, and nothing changes."""

import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pyrage
import pytest
from redis.asyncio import Redis

from tests.backups import archives
from wa_orchestrator.archive import sqlite_copies
from wa_orchestrator.archive.sqlite_schema import open_writer
from wa_orchestrator.orchestrator.backups import manifest
from wa_orchestrator.settings import Settings

ID = "backup_2026-01-31"
Entries = list[tuple[zipfile.ZipInfo | str, bytes]]


async def everything(settings: Settings, redis: Redis) -> dict[str, object]:
    """Every file of the sessions and every key, to compare."""
    files: dict[str, object] = {
        str(path.relative_to(settings.sessions_dir)): path.read_bytes()
        for path in settings.sessions_dir.rglob("*")
        if path.is_file()
    }
    names = [name async for name in redis.scan_iter() if not name.startswith(("lease:", "fence:", "control:"))]
    return files | {name: await redis.dump(name.encode()) for name in names if await redis.type(name) != "stream"}


def everything_in(place: Path) -> list[Path]:
    return list(place.rglob("*"))


def entry(name: str, mode: int = 0o100600) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    made.compress_type = zipfile.ZIP_DEFLATED
    return made


def with_traversal(place: Path) -> Entries:
    files = archives.contents(place) | {"../outside.db": b"x"}
    return [("manifest.json", archives.manifest(files)), *files.items()]


def with_unnamed_traversal(place: Path) -> Entries:
    files = archives.contents(place)
    return [("manifest.json", archives.manifest(files)), *files.items(), ("../../outside", b"x")]


def with_absolute_name(place: Path) -> Entries:
    files = archives.contents(place) | {"/etc/outside": b"x"}
    return [("manifest.json", archives.manifest(files)), *files.items()]


def with_duplicate(place: Path) -> Entries:
    files = archives.contents(place)
    return [("manifest.json", archives.manifest(files)), *files.items(), (archives.STATE, b"[]\n")]


def with_two_manifests(place: Path) -> Entries:
    files = archives.contents(place)
    described = ("manifest.json", archives.manifest(files))
    return [described, *files.items(), described]


def with_link(place: Path) -> Entries:
    files = archives.contents(place)
    (name,) = (each for each in files if each.endswith("auth.db"))
    rest: Entries = [(other, data) for other, data in files.items() if other != name]
    return [("manifest.json", archives.manifest(files)), *rest, (entry(name, stat.S_IFLNK | 0o777), files[name])]


def with_bomb(place: Path) -> Entries:
    files = archives.contents(place) | {archives.STATE: b"\n" * 32_000_000}
    return [("manifest.json", archives.manifest(files)), *files.items()]


def with_newer_format(place: Path) -> Entries:
    files = archives.contents(place)
    return [("manifest.json", archives.manifest(files, format=manifest.FORMAT + 1, version="9.0.0")), *files.items()]


def with_other_bytes(place: Path) -> Entries:
    files = archives.contents(place)
    described = archives.manifest(files)
    return [
        ("manifest.json", described),
        *(files | {archives.STATE: files[archives.STATE].replace(b"9", b"8")}).items(),
    ]


def with_missing_file(place: Path) -> Entries:
    files = archives.contents(place)
    return [("manifest.json", archives.manifest(files)), (archives.STATE, files[archives.STATE])]


def with_broken_database(place: Path) -> Entries:
    files = archives.contents(place)
    (name,) = (each for each in files if each.endswith("auth.db"))
    files[name] = files[name][:4096] + b"\xff" * (len(files[name]) - 4096)
    return [("manifest.json", archives.manifest(files)), *files.items()]


def with_foreign_database(place: Path) -> Entries:
    files = archives.contents(place)
    files["sessions/north/auth.db"] = archives.auth_db(place / "other.db", "south").read_bytes()
    return [("manifest.json", archives.manifest(files)), *files.items()]


def with_history(place: Path, *statements: str) -> Entries:
    source, target = place / "archive.sqlite", place / "history.db"
    open_writer(source).close()
    assert sqlite_copies.copy_to(source, target)
    with closing(sqlite3.connect(target)) as opened:
        for each in statements:
            opened.execute(each)
    files = archives.contents(place) | {"archive/history.db": target.read_bytes()}
    return [("manifest.json", archives.manifest(files)), *files.items()]


def with_trigger_in_history(place: Path) -> Entries:
    return with_history(place, "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM message; END")


def with_a_table_missing_in_history(place: Path) -> Entries:
    return with_history(place, "DROP TABLE incoming")


def with_broken_history(place: Path) -> Entries:
    files = archives.contents(place) | {"archive/history.db": b"SQLite format 3\0" + b"\xff" * 5000}
    return [("manifest.json", archives.manifest(files)), *files.items()]


def without_manifest(place: Path) -> Entries:
    return [*archives.contents(place).items()]


def with_no_redis_state(place: Path) -> Entries:
    files = archives.contents(place) | {archives.STATE: b'["session:north", "hash", 0, ["id"]]\n'}
    return [("manifest.json", archives.manifest(files)), *files.items()]


def with_imported(place: Path, text: str) -> Entries:
    """A session that another program's credentials were brought for."""
    files = archives.contents(place)
    del files["sessions/north/auth.db"]
    files["sessions/north/imported.json"] = text.encode()
    session = {"id": "north", "how": "imported", "sealed": False}
    return [("manifest.json", archives.manifest(files, sessions=[session])), *files.items()]


def with_a_list_of_imported_files(place: Path) -> Entries:
    return with_imported(place, '["creds.json"]')


def with_imported_files_that_are_no_account(place: Path) -> Entries:
    return with_imported(place, '{"creds.json": "{}", "../../creds.json": "{}"}')


def with_imported_files_beside_a_store(place: Path) -> Entries:
    files = archives.contents(place) | {"sessions/north/imported.json": b"{}"}
    return [("manifest.json", archives.manifest(files)), *files.items()]


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (with_a_list_of_imported_files, "BACKUP_DAMAGED"),
        (with_imported_files_that_are_no_account, "BACKUP_DAMAGED"),
        (with_imported_files_beside_a_store, "BACKUP_DAMAGED"),
        (with_traversal, "BACKUP_UNSAFE"),
        (with_unnamed_traversal, "BACKUP_UNSAFE"),
        (with_absolute_name, "BACKUP_UNSAFE"),
        (with_duplicate, "BACKUP_UNSAFE"),
        (with_two_manifests, "BACKUP_UNSAFE"),
        (with_link, "BACKUP_UNSAFE"),
        (with_bomb, "BACKUP_TOO_LARGE"),
        (with_newer_format, "BACKUP_NEWER"),
        (with_other_bytes, "BACKUP_DAMAGED"),
        (with_missing_file, "BACKUP_DAMAGED"),
        (with_broken_database, "BACKUP_DAMAGED"),
        (with_foreign_database, "BACKUP_DAMAGED"),
        (with_trigger_in_history, "BACKUP_DAMAGED"),
        (with_a_table_missing_in_history, "BACKUP_DAMAGED"),
        (with_broken_history, "BACKUP_DAMAGED"),
        (without_manifest, "BACKUP_DAMAGED"),
        (with_no_redis_state, "BACKUP_DAMAGED"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_an_archive_that_no_backup_writes_is_refused_with_the_reason_and_nothing_changes(
    api: httpx.AsyncClient,
    settings: Settings,
    redis: Redis,
    tmp_path: Path,
    made: Callable[[Path], Entries],
    code: str,
) -> None:
    archives.write(settings.backups_dir / f"{ID}.zip", made(tmp_path / "made"))
    await everything(settings, redis)
    before = await everything(settings, redis)
    answer = await api.post(f"/api/v1/backups/restore/{ID}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code), answer.text
    assert await everything(settings, redis) == before
    assert not any(path.name.startswith("outside") for path in everything_in(tmp_path))


async def test_a_sound_archive_of_the_same_kind_is_not_refused(
    api: httpx.AsyncClient, settings: Settings, tmp_path: Path
) -> None:
    archives.sound(settings.backups_dir / f"{ID}.zip", tmp_path / "made")
    answer = await api.post(f"/api/v1/backups/restore/{ID}", json={"dryRun": True})
    assert answer.status_code == 202, answer.text
    assert answer.json()["changes"]["returns"] == ["north"]
    assert not answer.json()["started"]


async def test_every_flipped_byte_and_every_cut_is_noticed(
    api: httpx.AsyncClient, settings: Settings, tmp_path: Path
) -> None:
    path = archives.sound(settings.backups_dir / f"{ID}.zip", tmp_path / "made")
    whole = path.read_bytes()
    places = sorted({*range(0, len(whole), 397), *range(len(whole) - 80, len(whole), 7)})
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in places]
    for data in [*changed, b"", whole[:50], whole[:-1], whole[: len(whole) // 2], whole + b"\0"]:
        path.write_bytes(data)
        answer = await api.post(f"/api/v1/backups/restore/{ID}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "BACKUP_DAMAGED"), answer.text


async def test_an_encrypted_archive_is_opened_by_its_own_key_only_and_a_flipped_byte_is_noticed(
    api: httpx.AsyncClient, settings: Settings, tmp_path: Path
) -> None:
    key, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    plain = archives.sound(tmp_path / "plain.zip", tmp_path / "made").read_bytes()
    path = settings.backups_dir / f"{ID}.zip.age"
    path.parent.mkdir(parents=True)
    path.write_bytes(pyrage.encrypt(plain, [key.to_public()]))
    whole = path.read_bytes()

    async def code(identity: object | None) -> str:
        body = {"dryRun": True} | ({"identity": str(identity)} if identity else {})
        answer = await api.post(f"/api/v1/backups/restore/{ID}", json=body)
        assert str(key) not in answer.text
        return "" if answer.is_success else str(answer.json()["error"]["code"])

    assert await code(None) == "BACKUP_KEY_NEEDED"
    assert await code(other) == "BACKUP_KEY_WRONG"
    assert await code("nonsense") == "BACKUP_KEY_WRONG"
    assert await code(key) == ""
    assert await code(f"# created: 2026\n# public key: {key.to_public()}\n{key}\n") == ""
    for at in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert await code(key) in ("BACKUP_DAMAGED", "BACKUP_KEY_WRONG")
    for end in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert await code(key) == "BACKUP_DAMAGED"


@pytest.mark.parametrize("name", ["backup_2026-01-32x", "..%2F..%2Fetc%2Fpasswd", "x" * 70])
async def test_only_a_listed_backup_can_be_named(api: httpx.AsyncClient, name: str) -> None:
    assert (await api.post(f"/api/v1/backups/restore/{name}")).status_code == 404


async def test_a_link_in_the_directory_of_backups_is_not_followed(
    api: httpx.AsyncClient, settings: Settings, tmp_path: Path
) -> None:
    archives.sound(tmp_path / "elsewhere.zip", tmp_path / "made")
    settings.backups_dir.mkdir(parents=True)
    (settings.backups_dir / f"{ID}.zip").symlink_to(tmp_path / "elsewhere.zip")
    assert (await api.post(f"/api/v1/backups/restore/{ID}")).status_code == 404
