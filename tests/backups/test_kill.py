"""`kill -9` at random points of a backup and of a restore: never half a state.

`BACKUP_KILLS=100` tries that many points of each, `BACKUP_SEED` repeats a run.
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
from tests.backups.test_restore import queue_message, state
from tests.chaos import Record
from tests.redis_server import DURABLE, redis_server
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.orchestrator.backups import archive_reader, backup_files, journal_file, prepared_restore
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.backups import state_dump
from wa_orchestrator.store.engine.line_client import LineClient

KILLS = int(os.environ.get("BACKUP_KILLS", "8"))
#: CI tries the same points every time; people, new ones.
SEED = int(
    os.environ.get("BACKUP_SEED") or (1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6))
)
SESSIONS = ("north", "south")
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

    async def process(self, line: int, backup_id: str = "") -> tuple[int | None, int]:
        """Make a backup, or restore one, in a process of its own; its exit code, and the lines it executed."""
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload(["tests.backups.crash"])
        reads, writes = processes.Pipe(duplex=False)
        process = processes.Process(target=crash.run, args=(self.url, self.home, backup_id, line, writes))
        process.start()
        writes.close()
        process.join()
        # The leases of a killed process expire; here nobody waits for that.
        await self.context.redis.delete(keys.lease("backups"), keys.lease("control"))
        return process.exitcode, reads.recv() if process.exitcode == 0 else 0

    async def fill(self) -> None:
        """Two linked sessions, messages that wait, and history on disk."""
        redis = self.context.redis
        for number, session_id in enumerate(SESSIONS):
            known: dict[Any, Any] = {
                "id": session_id, "status": "connected", "phone": f"97250100000{number}", "wanted": "running",
                "epoch": "3", "version": "1", "first_connected_at": "5",
            }  # fmt: skip
            await redis.hset(keys.session(session_id), mapping=known)
            await redis.sadd(keys.SESSIONS_ALL, session_id)
            archives.auth_db(credential_files.directory(self.settings, session_id) / "auth.db", session_id)
        for number in range(20):
            await queue_message(redis, f"m_{number:018x}")
        await self.context.archive.create()
        await self.context.archive.put_messages([ended_message(1 << 40)])

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
        assert installed.credentials() == sorted(SESSIONS)
        assert list(prepared_restore.decided(installed.settings)) == []
        assert len(await context.archive.messages([ended_message(1 << 40).id])) == 1
    print("killed:", dict(points), "of", lines, "lines")
