"""The embedded Redis: durable, alone in its directory, and found again."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from tests.waiting import PATIENCE_S, until
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine import append_only_file, durability
from wa_orchestrator.store.engine.durability import Promise, Weakness
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis, find_program, max_memory_bytes, sole_server
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import archive_marks
from wa_orchestrator.store.messages import admission
from wa_orchestrator.texts.catalogue import languages, texts

_ROOM = admission.Room(queue_limit=1_000_000, per_day=1_000_000, day_start_ms=0)


async def accept(scripts: Scripts, number: int) -> None:
    """Return only when the store said that it has the message."""
    phone = f"9725000000{number % 50:02}"
    message = admission.NewMessage(f"m{number}", f"3EB0{number:018X}", phone, "worker_1", "972501234567")
    assert isinstance(await admission.accept(scripts, message, _ROOM), admission.Accepted)


async def stored(redis: Redis) -> set[str]:
    """Read back all messages, and require each to be whole: its hash, its job, and its place in the count."""
    jobs = await redis.lrange(keys.GATEWAY_JOBS, 0, -1)
    async with redis.pipeline(transaction=False) as pipe:
        for each in jobs:
            pipe.hget(keys.message(each), "status")
        assert set(await pipe.execute()) == {"queued"}
    assert int(await redis.hget(keys.COUNTS, "accepted") or 0) == len(jobs) == len(set(jobs))
    return set(jobs)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """A data directory in which no Redis is left running."""
    yield tmp_path
    if (tmp_path / "redis").exists():
        redis = EmbeddedRedis(tmp_path)
        await redis.start()
        await redis.stop()


async def test_every_accept_that_was_answered_survives_kill_9_of_redis(home: Path) -> None:
    total, clients, kills = 10_000, 50, 3
    answered: set[str] = set()
    unanswered = 0
    waiting = iter(range(total))
    async with EmbeddedRedis(home) as embedded:
        pool = BlockingConnectionPool.from_url(
            embedded.url, max_connections=clients, timeout=PATIENCE_S, decode_responses=True
        )
        redis = Redis(connection_pool=pool)
        scripts = Scripts(redis)

        async def client() -> None:
            nonlocal unanswered
            for number in waiting:
                try:
                    await accept(scripts, number)
                except (RedisError, OSError):
                    unanswered += 1  # it may or may not be there
                    await asyncio.sleep(0.05)
                else:
                    answered.add(f"m{number}")

        async def killer() -> None:
            for number in range(1, kills + 1):
                await until(lambda n=number: len(answered) > n * total // (kills + 2), "some were answered")
                pid = await embedded.pid()
                os.kill(pid, signal.SIGKILL)
                await until(lambda pid=pid: _restarted(embedded, pid), "Redis runs again")

        await asyncio.gather(killer(), *(client() for _ in range(clients)))
        kept = await stored(redis)
        await redis.aclose()
        await pool.disconnect()

    assert unanswered >= kills, "no kill hit a write in flight: the run proves nothing"
    assert answered - kept == set()
    assert len(answered) > total // 2


async def _restarted(embedded: EmbeddedRedis, old_pid: int) -> bool:
    with contextlib.suppress(RedisError, OSError):
        return await embedded.pid() != old_pid
    return False


async def test_a_second_server_on_one_data_directory_is_refused_in_one_line(home: Path) -> None:
    async with EmbeddedRedis(home):
        with pytest.raises(Refused) as refused:
            await EmbeddedRedis(home).start()
    assert refused.value.code == "DATA_DIR_IN_USE"
    assert str(home) in refused.value.text
    assert "\n" not in refused.value.text


async def test_a_directory_is_free_again_when_its_server_has_stopped(home: Path) -> None:
    async with EmbeddedRedis(home):
        pass
    with sole_server(home):
        pass


_CRASHING_SERVER = """
import asyncio, os, sys
from pathlib import Path
from redis.asyncio import Redis
from wa_orchestrator import logs
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis

logs.configure()

async def main():
    embedded = EmbeddedRedis(Path(sys.argv[1]))
    url = await embedded.start()
    await Redis.from_url(url).set("kept", "yes")
    print(await embedded.pid(), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_a_redis_that_outlived_its_server_is_adopted_and_not_doubled(home: Path) -> None:
    crashed = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CRASHING_SERVER,
        str(home),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert crashed.stdout
    survivor = int(await crashed.stdout.readline())
    assert await crashed.wait() == -signal.SIGKILL

    async with EmbeddedRedis(home) as embedded:
        assert embedded.adopted
        assert await embedded.pid() == survivor
        redis = Redis.from_url(embedded.url)
        assert await redis.get("kept") == b"yes"
        await redis.aclose()


async def test_a_torn_end_of_the_append_only_file_does_not_keep_it_from_starting(home: Path) -> None:
    async with EmbeddedRedis(home) as embedded:
        redis = Redis.from_url(embedded.url)
        await redis.set("kept", "yes")
        await redis.aclose()
    (log,) = (home / "redis" / "appendonlydir").glob("*.incr.aof")
    with log.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nhal")
    async with EmbeddedRedis(home) as embedded:
        redis = Redis.from_url(embedded.url)
        assert await redis.get("kept") == b"yes"
        await redis.aclose()


@pytest.mark.parametrize("zeros", [1, 613, 200_000])
@pytest.mark.parametrize("torn", [b"", b"*3\r\n$3\r\nSET\r\n$4\r\nhal"])
async def test_the_zeros_that_a_power_cut_leaves_in_its_file_do_not_keep_it_from_starting(
    home: Path, torn: bytes, zeros: int
) -> None:
    async with EmbeddedRedis(home) as embedded:
        redis = Redis.from_url(embedded.url)
        await redis.set("kept", "yes")
        await redis.aclose()
    (log,) = (home / "redis" / "appendonlydir").glob("*.incr.aof")
    with log.open("ab") as file:
        file.write(torn + b"\0" * zeros)
    async with EmbeddedRedis(home) as embedded:
        redis = Redis.from_url(embedded.url)
        assert await redis.get("kept") == b"yes"
        await redis.aclose()


def test_the_containers_redis_starts_with_a_file_that_a_power_cut_left_zeros_in(tmp_path: Path) -> None:
    parts = tmp_path / "appendonlydir"
    parts.mkdir()
    for number, content in ((9, b"*1\r\n$4\r\nPING\r\n"), (10, b"*1\r\n$4\r\nPING\r\n\0\0\0"), (11, b"\0" * 70_000)):
        (parts / f"appendonly.aof.{number}.incr.aof").write_bytes(content)
        command = [sys.executable, "-I", "-m", append_only_file.__name__, str(tmp_path), "echo", "starts"]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "starts\n"
    assert [part.stat().st_size for part in sorted(parts.iterdir())] == [14, 0, 14]


async def test_it_is_durable_and_reachable_only_by_its_owner(home: Path) -> None:
    async with EmbeddedRedis(home) as embedded:
        redis = Redis.from_url(embedded.url, decode_responses=True)
        config = await redis.config_get("*")
        await redis.aclose()
        verdict = await durability.check(embedded.url)
        mode = (home / "redis").stat().st_mode & 0o777
    wanted = {"port": "0", "appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": ""}
    assert {name: config[name] for name in wanted} == wanted
    assert verdict.weaknesses == ()
    assert mode == 0o700


async def test_a_data_directory_too_deep_for_a_socket_works_all_the_same(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    async with EmbeddedRedis(deep) as embedded:
        socket = Path((deep / "redis" / "socket").read_text())
        assert len(str(socket)) < 100
        assert socket.parent.stat().st_mode & 0o777 == 0o700
        assert str(socket) in embedded.url
        redis = Redis.from_url(embedded.url)
        assert await redis.ping()
        await redis.aclose()
    socket.parent.rmdir()


async def test_a_redis_that_cannot_start_is_told_with_the_end_of_its_log(home: Path) -> None:
    (home / "redis" / "appendonlydir").mkdir(parents=True)
    (home / "redis" / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(Unavailable, match="manifest"):
        await EmbeddedRedis(home).start()
    (home / "redis" / "appendonlydir" / "appendonly.aof.manifest").unlink()


def test_a_server_on_the_path_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.2.14 sha=00000000:0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_program().path != old

    new = tmp_path / "valkey-server"
    new.write_text("#!/bin/sh\necho 'Valkey server v=8.0.1 sha=00000000:0'\n")
    new.chmod(0o755)
    found = find_program()
    assert (found.path, found.version) == (new, "8.0.1") or found.path.name == "redis-server"


@pytest.mark.parametrize(
    ("facts", "appendfsync", "weakness"),
    [
        ({"aof_enabled": 1, "used_memory": 70, "maxmemory": 100}, "always", Weakness.MEMORY_LOW),
        ({"aof_enabled": 0}, None, Weakness.APPENDONLY_OFF),
        ({"aof_enabled": 1}, "everysec", Weakness.APPENDFSYNC_NOT_ALWAYS),
        ({"aof_enabled": 1, "maxmemory_policy": "allkeys-lru"}, "always", Weakness.EVICTION),
        ({"aof_enabled": 1, "role": "slave"}, "always", Weakness.REPLICA),
    ],
)
def test_a_redis_that_can_lose_messages_is_warned_about(
    facts: dict[str, object], appendfsync: str | None, weakness: Weakness
) -> None:
    assert durability.judge(facts, appendfsync) == (weakness,)
    assert all(f"redis_weakness.{weakness}" in texts(language) for language in languages())


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


async def test_nobody_reads_or_writes_without_the_password_and_no_list_of_processes_shows_it(home: Path) -> None:
    async with EmbeddedRedis(home) as embedded:
        password = (home / "redis" / "password").read_text()
        command_line = _command_line(await embedded.pid())
        stranger = Redis.from_url(embedded.url.replace(f":{password}@", ""))
        with pytest.raises(RedisError, match="authenticat"):
            await stranger.ping()
        await stranger.aclose()
    assert password in embedded.url
    assert password not in command_line
    assert (home / "redis" / "password").stat().st_mode & 0o077 == 0
    assert (home / "redis").stat().st_mode & 0o077 == 0


async def test_a_redis_that_was_started_without_a_password_gets_one_when_it_is_adopted(home: Path) -> None:
    embedded = EmbeddedRedis(home)
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(Redis.from_url(await embedded.start(), decode_responses=True))
        await redis.set("kept", "1")
        await redis.config_set("requirepass", "")
        assert embedded._watch is not None
        embedded._watch.cancel()
        embedded._held.close()  # as if the server had been killed
        adopter = await stack.enter_async_context(EmbeddedRedis(home))
        assert adopter.adopted
        again = await stack.enter_async_context(Redis.from_url(adopter.url, decode_responses=True))
        assert await again.get("kept") == "1"
        stranger = await stack.enter_async_context(
            Redis.from_url(adopter.url.partition(":")[0] + "://" + adopter.url.rpartition("@")[2])
        )
        with pytest.raises(RedisError, match="authenticat"):
            await stranger.ping()


async def test_redis_may_use_a_share_of_the_machine_and_deletes_nothing_when_it_is_full(home: Path) -> None:
    async with EmbeddedRedis(home) as embedded, Redis.from_url(embedded.url, decode_responses=True) as redis:
        facts = await redis.info("memory")
        assert facts["maxmemory"] == max_memory_bytes() > 0
        assert facts["maxmemory_policy"] == "noeviction"
        await redis.set("kept", "1")
        await redis.config_set("maxmemory", 1)
        with pytest.raises(RedisError, match="maxmemory"):
            await redis.set("new", "1")
        assert await redis.get("kept") == "1"
        assert durability.is_memory_low(*await durability.memory_in_use(Scripts(redis)))


async def test_what_was_erased_leaves_the_disk_of_redis(home: Path) -> None:
    async with EmbeddedRedis(home) as embedded, Redis.from_url(embedded.url, decode_responses=True) as redis:
        await redis.set("message", "a text whose retention has ended")
        await redis.delete("message")

        async def is_gone() -> bool:
            content = b""
            for path in (home / "redis" / "appendonlydir").glob("*.aof"):
                with contextlib.suppress(FileNotFoundError):  # Redis removes old parts meanwhile
                    content += path.read_bytes()
            return b"whose retention" not in content

        assert not await is_gone()
        await archive_marks.rewrite(Scripts(redis))
        await until(is_gone, "the text is gone")


@pytest.mark.parametrize(
    ("found", "appendfsync", "replicas_ack", "promise"),
    [
        ((), "always", 0, Promise.ONE_DISK),
        ((), "always", 1, Promise.REPLICAS),
        ((Weakness.MEMORY_LOW,), "always", 0, Promise.ONE_DISK),
        ((Weakness.TOO_FEW_REPLICAS,), "always", 1, None),
        ((Weakness.FAILOVER_LOSES_WRITES,), "always", 0, None),
        ((Weakness.APPENDFSYNC_NOT_ALWAYS,), "everysec", 1, None),
        ((), None, 0, None),  # a hosted service that does not tell its settings
    ],
)
def test_what_becomes_of_an_accepted_message_is_promised_only_with_the_settings_for_it(
    found: tuple[Weakness, ...], appendfsync: str | None, replicas_ack: int, promise: Promise | None
) -> None:
    assert durability.promise(found, appendfsync, replicas_ack) is promise
    assert promise is None or all(f"redis_promise.{promise}" in texts(language) for language in languages())
