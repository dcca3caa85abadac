"""`kill -9` at random points of archiving: afterwards every message is found exactly once.

`ARCHIVE_KILLS=200` tries that many points of each kind of archive, in runs of at most 25 with an archive of their own: after every kill all
messages are looked for, so a long run would mostly search. `ARCHIVE_SEED` repeats them.
"""

import multiprocessing
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.archive import crash
from tests.archive.conftest import MakeDatabase
from tests.archive.history import BEGIN_MS, ended_message, found_ids, put_into_redis
from tests.chaos import Record
from tests.redis_server import DURABLE, redis_server
from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.factory import archive_for
from wa_orchestrator.domain.stream_events import AlertTest, EventType
from wa_orchestrator.messages import event_history
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import contacts, incoming_messages

KILLS = int(os.environ.get("ARCHIVE_KILLS", "6"))
SEED = int(os.environ.get("ARCHIVE_SEED") or random.SystemRandom().randrange(10**6))
KILLS_OF_A_RUN = 25
RUNS = [min(KILLS_OF_A_RUN, KILLS - before) for before in range(0, KILLS, KILLS_OF_A_RUN)]
MESSAGES = 30
KILLED = -9


def _archive(redis_url: str, settings: Settings, line: int) -> tuple[int | None, int]:
    """Archive in a process of its own; its exit code, and how many lines it executed if it lived."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.archive.crash"])
    reads, writes = processes.Pipe(duplex=False)
    process = processes.Process(target=crash.run, args=(redis_url, settings, line, writes))
    process.start()
    writes.close()
    process.join()
    return process.exitcode, reads.recv() if process.exitcode == 0 else 0


async def _add(scripts: Scripts, first: int) -> None:
    """Messages that ended, incoming ones and events, all old enough to move."""
    await put_into_redis(
        scripts, [ended_message(number << 30, reference="r") for number in range(first, first + MESSAGES)]
    )
    for number in range(first, first + 5):
        received = contacts.Incoming("w1", "97250", f"IN{number}", "text", "97251", fields={"text": "hi"})
        await contacts.receive(scripts, received, keep_ms=10**12)
        await event_stream.emit(scripts, EventType.ALERT_TEST, AlertTest(str(number)))


@pytest.mark.parametrize(("run", "kills"), list(enumerate(RUNS)))
async def test_kill_9_at_any_point_of_archiving_leaves_every_message_found_exactly_once(
    tmp_path: Path, record_property: Record, make_database: MakeDatabase, run: int, kills: int
) -> None:
    record_property("kills", kills)
    print(f"ARCHIVE_SEED={SEED} ARCHIVE_KILLS={KILLS}, run {run}")
    dice = random.Random(SEED + run)
    with redis_server(*DURABLE) as server:
        redis = LineClient.from_url(server.url, decode_responses=True)
        scripts = Scripts(redis, clock=f"local function now_ms() return {BEGIN_MS} end")
        await _add(scripts, 1)
        exit_code, lines = _archive(server.url, Settings(data_dir=tmp_path / "dry", **make_database()), 0)
        assert exit_code == 0
        await redis.flushall()
        settings = Settings(data_dir=tmp_path, **make_database())
        archive = archive_for(settings)
        accepted, points = 0, Counter[str]()
        for kill in range(kills):
            await _add(scripts, accepted + 1)
            accepted += MESSAGES
            waiting = await redis.zcard(keys.ENDED)
            # A round that follows early deaths has more to do, and so more lines to die at.
            exit_code, _ = _archive(server.url, settings, dice.randint(1, lines * waiting // MESSAGES))
            # Where fewer lines were left than drawn, it ended by itself.
            assert exit_code in (KILLED, 0)
            left = await redis.zcard(keys.ENDED)
            points["before" if left == waiting else "between" if left else "after"] += exit_code == KILLED
            found = await found_ids(scripts, archive, limit=100)
            assert len(found) == len(set(found)) == accepted, (kill, SEED)
            assert len(await found_ids(scripts, archive, limit=100, text="hello")) == accepted, (kill, SEED)
        print("killed before, between and after removals:", dict(points))
        assert _archive(server.url, settings, 0)[0] == 0
        assert await redis.zcard(keys.ENDED) == 0
        assert len(await archive.messages(await found_ids(scripts, archive))) == accepted
        await _check_events_and_incoming(scripts, archive, kills)
        await archive.close()
        await redis.aclose()


async def _check_events_and_incoming(scripts: Scripts, archive: Archive, rounds: int) -> None:
    names = [f"IN{number}" for first in range(rounds) for number in range(first * MESSAGES + 1, first * MESSAGES + 6)]
    assert len(await archive.incoming([("w1", name) for name in names])) == len(names)
    assert await incoming_messages.copies(scripts, BEGIN_MS, most=1) == []
    events = await archive.events("0", most=10**6)
    assert [each.cursor for each in events] == [each.cursor for each in await event_stream.read(scripts, most=10**6)]
    assert len(await event_history.read(scripts, archive, after="0", most=10**6)) == len(events)
