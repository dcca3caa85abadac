"""`kill -9` at random points of a backup and of a restore: never half a state.

`BACKUP_KILLS=100` tries that many points of each (of a restore of everything, and of one of some sessions), `BACKUP_SEED` repeats a run.
"""

import json
import multiprocessing
import os
import random
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.archive.history import ended_message
from tests.backups import archives, crash
from tests.backups.test_restore import queue_message, state, stores
from tests.chaos import Record
from tests.redis_server import DURABLE, redis_server
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.orchestrator.backups import archive_reader, backup_files, journal_file, prepared_restore
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.backups import runs, state_dump
from wa_orchestrator.store.engine.line_client import LineClient

KILLS = int(os.environ.get("BACKUP_KILLS", "8"))
#: CI tries the same points every time; people, new ones.
SEED = int(
    os.environ.get("BACKUP_SEED") or (1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6))
)
SESSIONS = ("north", "south", "east", "west")
#: What a restore of some sessions is asked for; it finds one of them in use, and two that were deleted.
CHOSEN = ("north", "south", "east")
KILLED = -9


@dataclass(frozen=True)
class Installation:
    """A Redis, a directory, and processes that die with them."""

    context: Context
    url: str
    home: Path

    @property
    def settings(self) -> Settings:
        return self.context.settings

    async def process(self, line: int, backup_id: str = "", chosen: tuple[str, ...] = ()) -> tuple[int | None, int]:
        """Make a backup, or restore one or some sessions of it, in a process of its own; its exit code, and the lines it executed."""
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload(["tests.backups.crash"])
        reads, writes = processes.Pipe(duplex=False)
        process = processes.Process(target=crash.run, args=(self.url, self.home, backup_id, chosen, line, writes))
        process.start()
        writes.close()
        process.join()
        # The leases of a killed process expire; here nobody waits for that.
        await self.context.redis.delete(keys.lease("backups"), keys.lease("control"))
        return process.exitcode, reads.recv() if process.exitcode == 0 else 0

    async def fill(self, epoch: int = 3) -> None:
        """Linked sessions, messages that wait, and history on disk."""
        redis = self.context.redis
        for number, session_id in enumerate(SESSIONS):
            known: dict[Any, Any] = {
                "id": session_id, "status": "connected", "phone": f"97250100000{number}", "wanted": "running",
                "epoch": "3", "version": "1", "first_connected_at": "5",
            }  # fmt: skip
            await redis.hset(keys.session(session_id), mapping=known)
            await redis.sadd(keys.SESSIONS_ALL, session_id)
            archives.auth_db(credential_files.directory(self.settings, session_id) / "auth.db", session_id, epoch)
            await redis.sadd(keys.sessions_of_phone(known["phone"]), session_id)
        for number in range(20):
            await queue_message(redis, f"m_{number:018x}")
        await self.context.archive.create()
        await self.context.archive.put_messages([ended_message(1 << 40)])

    async def use_on(self) -> None:
        """Go on from the backup: newer credentials, two sessions deleted, and the phone of one of them is full."""
        redis = self.context.redis
        await redis.flushall()
        shutil.rmtree(self.settings.sessions_dir)
        await self.fill(epoch=9)
        for number, session_id in ((1, "south"), (2, "east")):
            await redis.delete(keys.session(session_id), keys.sessions_of_phone(f"97250100000{number}"))
            await redis.srem(keys.SESSIONS_ALL, session_id)
            shutil.rmtree(credential_files.directory(self.settings, session_id))
        await redis.sadd(keys.sessions_of_phone("972501000002"), *(f"sibling_{number}" for number in range(4)))

    async def endings(self) -> list[str]:
        """The ends of restores that were told."""
        told = [fields["type"] for _, fields in await self.context.redis.xrange(keys.EVENTS)]
        return [kind for kind in told if kind.startswith("restore.") and kind != EventType.RESTORE_SESSION]

    def credentials(self) -> list[str]:
        return sorted(path.parent.name for path in self.settings.sessions_dir.glob("*/auth.db"))

    def check_backups(self, place: Path) -> list[str]:
        """Read every listed backup whole; return their ids."""
        found = backup_files.listed(self.settings)
        place.mkdir()
        for note in found:
            assert note.verified_at, note.id
            manifest = archive_reader.unpack(backup_files.path_of(self.settings, note), place / note.id)
            assert {each.id for each in manifest.sessions} == set(SESSIONS)
        shutil.rmtree(place, ignore_errors=True)
        return [note.id for note in found]


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installation]:
    print(f"BACKUP_SEED={SEED} BACKUP_KILLS={KILLS}")
    with redis_server(*DURABLE) as server:
        redis = LineClient.from_url(server.url, decode_responses=True)
        context = make_context(crash.settings_of(tmp_path / "home"), redis)
        yield Installation(context, server.url, tmp_path / "home")
        await context.archive.close()
        await redis.aclose()


async def test_kill_9_at_any_point_of_a_backup_leaves_only_whole_ones(
    installed: Installation, tmp_path: Path, record_property: Record
) -> None:
    record_property("kills", KILLS)
    dice, points = random.Random(SEED), Counter[str]()
    await installed.fill()
    exit_code, lines = await installed.process(0)
    assert exit_code == 0
    for kill in range(KILLS):
        before = set(installed.check_backups(tmp_path / "read"))
        exit_code, _ = await installed.process(dice.randint(1, lines))
        assert exit_code in (KILLED, 0)
        after = set(installed.check_backups(tmp_path / "read"))
        # Either it was not made, and the others are there; or it was, and only the oldest may have gone.
        assert after, (kill, SEED)
        assert after >= before or len(after - before) == 1, (kill, SEED)
        points["made" if after - before else "not made"] += exit_code == KILLED
        assert installed.credentials() == sorted(SESSIONS)
    assert (await installed.process(0))[0] == 0
    assert list(installed.settings.backups_dir.glob(f"{backup_files.UNFINISHED}*")) == []
    print("killed with the backup:", dict(points), "of", lines, "lines")


async def test_kill_9_at_any_point_of_a_restore_leaves_the_old_state_or_the_next_server_finishes_it(
    installed: Installation, tmp_path: Path, record_property: Record
) -> None:
    record_property("kills", KILLS)
    dice, points = random.Random(SEED), Counter[str]()
    context, redis = installed.context, installed.context.redis
    await installed.fill()
    journal = installed.settings.backups_dir / journal_file.FILE
    journal.parent.mkdir(parents=True)
    journal.write_text(json.dumps({"begins": "0"}) + "\n")
    assert (await installed.process(0))[0] == 0
    (backup_id,) = installed.check_backups(tmp_path / "read")
    expected = await state(context)

    async def lose_everything() -> None:
        await redis.flushall()
        shutil.rmtree(installed.settings.sessions_dir, ignore_errors=True)

    await lose_everything()
    exit_code, lines = await installed.process(0, backup_id)
    assert exit_code == 0
    assert await state(context) == expected
    for kill in range(KILLS):
        await lose_everything()
        exit_code, _ = await installed.process(dice.randint(1, lines), backup_id)
        assert exit_code in (KILLED, 0)
        decided = bool(list(prepared_restore.decided(installed.settings)))
        if not decided and await state_dump.is_empty(context.scripts):  # nothing was decided, so nothing was touched
            assert installed.credentials() == []
            points["before the decision"] += 1
            continue
        points["after the decision" if decided else "at the end"] += exit_code == KILLED
        if decided:
            assert (await installed.process(0, backup_id))[0] == 0
        assert await state(context) == expected, (kill, SEED)
        assert await installed.endings() == ["restore.done"], (kill, SEED)
        assert installed.credentials() == sorted(SESSIONS)
        assert list(prepared_restore.decided(installed.settings)) == []
        assert len(await context.archive.messages([ended_message(1 << 40).id])) == 1
    print("killed:", dict(points), "of", lines, "lines")


async def test_kill_9_at_any_point_of_a_restore_of_some_sessions_leaves_the_old_state_or_the_next_server_finishes_it(
    installed: Installation, tmp_path: Path, record_property: Record
) -> None:
    record_property("kills", KILLS)
    dice, points = random.Random(SEED), Counter[str]()
    context, settings = installed.context, installed.settings
    await installed.fill()
    assert (await installed.process(0))[0] == 0
    (backup_id,) = installed.check_backups(tmp_path / "read")
    backed_up = stores(settings)

    await installed.use_on()
    old, old_stores = await state(context), stores(settings)
    exit_code, lines = await installed.process(0, backup_id, CHOSEN)
    assert exit_code == 0
    expected = await state(context)
    assert stores(settings) == {each: backed_up[each] for each in ("north", "south")} | {"west": old_stores["west"]}
    assert expected[keys.session("west")] == old[keys.session("west")]
    assert keys.session("south") in expected
    assert keys.session("east") not in expected

    for kill in range(KILLS):
        await installed.use_on()
        exit_code, _ = await installed.process(dice.randint(1, lines), backup_id, CHOSEN)
        assert exit_code in (KILLED, 0)
        decided = bool(list(prepared_restore.decided(settings)))
        if not decided and not await installed.endings():  # nothing was decided, so nothing was touched
            assert (await state(context), stores(settings)) == (old, old_stores), (kill, SEED)
            points["before the decision"] += 1
            continue
        points["after the decision" if decided else "at the end"] += exit_code == KILLED
        if decided:
            assert (await installed.process(0, backup_id, CHOSEN))[0] == 0
        assert await state(context) == expected, (kill, SEED)
        assert stores(settings) == {each: backed_up[each] for each in ("north", "south")} | {"west": old_stores["west"]}
        assert [each.session_id for each in credential_files.list_trash(settings)] == ["north"], (kill, SEED)
        (ended,) = [each for each in await runs.latest(context.scripts) if each.kind == "restore"]
        assert ended.outcomes == {"north": "RESTORED", "south": "RESTORED", "east": "PHONE_FULL"}, (kill, SEED)
        assert await installed.endings() == ["restore.incomplete"], (kill, SEED)
        assert list(prepared_restore.decided(settings)) == []
    print("killed:", dict(points), "of", lines, "lines")
