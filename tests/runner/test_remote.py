"""What only the runner behind a socket promises: callers get no further than the worker of one session."""

import asyncio
import inspect
import json
import re
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiodocker import Docker

from tests.runner.drivers import COMMAND, SESSION, docker_or_skip, driver, is_ready, spec
from tests.runner.faulty_runner import FaultyRunner, RunnerFault
from wa_orchestrator.errors import Broken, Unavailable
from wa_orchestrator.orchestrator.workers import worker_spec
from wa_orchestrator.runner.contract import Exited, Lost, Runner, Running
from wa_orchestrator.runner.own_container import described
from wa_orchestrator.runner.process import ProcessRunner
from wa_orchestrator.runner.remote import protocol
from wa_orchestrator.runner.remote.client import RemoteRunner
from wa_orchestrator.runner.remote.server import ENVIRONMENT_NAMES, AllowedFiles, RunnerServer


@asynccontextmanager
async def served(home: Path, inner: Runner | None = None) -> AsyncIterator[tuple[RemoteRunner, Path]]:
    """A runner of processes behind a socket; its workers are ended afterwards."""
    inner = inner or ProcessRunner(home / "workers", COMMAND)
    with tempfile.TemporaryDirectory() as place:  # short: the kernel takes 107 characters
        path = Path(place) / "runner.sock"
        async with RunnerServer(inner, AllowedFiles(home / "sessions", home / "simulator")).serving(path):
            try:
                yield RemoteRunner(path), path
            finally:
                for found in await inner.survey():
                    await inner.stop(found.handle, 0)


async def asked(path: Path, question: bytes) -> dict[str, Any]:
    """What the runner answers to anything."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(question)
    answer: dict[str, Any] = json.loads(await reader.readline())
    writer.close()
    return answer


def question(**changes: Any) -> bytes:
    whole = {"verb": "start", "session": SESSION, "epoch": 1, "environment": {}, "secrets": {"WORKER_TOKEN": "t"}}
    return protocol.line(whole | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"session": "../../etc"},
        {"session": "linked"},
        {"environment": {"NODE_OPTIONS": "--require /app/session/evil.js"}},
        {"environment": {"LD_PRELOAD": "/app/session/evil.so"}},
        {"environment": {"NODE_EXTRA_CA_CERTS": "/etc/shadow"}},
        {"secrets": {"../../token": "t"}},
        {"verb": "exec"},
        {"epoch": "one"},
    ],
)
async def test_a_caller_gets_no_further_than_the_worker_of_one_session(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "linked").symlink_to("/etc")
    async with served(tmp_path) as (runner, path):
        assert (await asked(path, question(**changes)))["error"] == "unavailable"
        assert await runner.survey() == []


async def test_a_file_of_the_simulator_may_be_an_authority_and_a_link_to_another_may_not(tmp_path: Path) -> None:
    simulator = tmp_path / "simulator"
    simulator.mkdir()
    (simulator / "ca.pem").write_text("authority")
    (simulator / "link.pem").symlink_to("/etc/hostname")
    async with served(tmp_path) as (runner, path):
        linked = question(environment={"NODE_EXTRA_CA_CERTS": str(simulator / "link.pem")})
        assert (await asked(path, linked))["error"] == "unavailable"
        good = question(environment={"NODE_EXTRA_CA_CERTS": str(simulator / "ca.pem")})
        assert await runner.poll((await asked(path, good))["handle"]) == Running()


def test_workers_are_told_nothing_that_the_runner_would_refuse() -> None:
    """By the source: some are told only now and then. Without a proxy is not possible in containers."""
    source = inspect.getsource(worker_spec)
    block = source[source.index("    environment = {") : source.index("    secrets = {")]
    told = set(re.findall(r'"([A-Z][A-Z_]+)"[:\]]', block))
    assert {"WEBHOOK_URL", "NODE_EXTRA_CA_CERTS"} <= told
    assert told == ENVIRONMENT_NAMES


@pytest.mark.parametrize("asking", [b"\n", b"[]\n", b'"start"\n', b"{}\n", b"not json\n", b'{"verb":"stop"}\n'])
async def test_what_is_no_question_is_answered_with_an_error_and_served_on(asking: bytes, tmp_path: Path) -> None:
    async with served(tmp_path) as (runner, path):
        assert (await asked(path, asking))["error"] == "unavailable"
        assert await runner.survey() == []


async def test_the_socket_is_open_to_the_group_of_its_directory_and_nobody_else(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert path.stat().st_gid == path.parent.stat().st_gid


async def test_after_the_end_no_worker_runs_none_is_started_and_none_is_called_dead(tmp_path: Path) -> None:
    async with served(tmp_path) as (runner, _):
        one = spec(tmp_path)
        await runner.start(one)
        await is_ready(one)
        assert await runner.end() == 1
        for call in (runner.start(spec(tmp_path, epoch=2)), runner.survey(), runner.poll("process/1/1/1")):
            with pytest.raises(Unavailable) as error:
                await call
            assert error.value.code == "RUNNER_ENDED"
    assert await ProcessRunner(tmp_path / "workers", COMMAND).survey() == []


async def test_a_runner_that_is_away_is_no_proof_of_an_end(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        await RemoteRunner(tmp_path / "nothing.sock").poll("docker/1/abc")


@pytest.mark.docker
async def test_a_worker_whose_node_is_away_is_lost_for_the_caller_too(tmp_path: Path) -> None:
    there = FaultyRunner(ProcessRunner(tmp_path / "workers", COMMAND))
    async with served(tmp_path, there) as (runner, _):
        handle = await runner.start(spec(tmp_path))
        there.faults.add(RunnerFault.NODE_LOST)
        assert await runner.poll(handle) == Lost()
        assert [each.is_lost for each in await runner.survey()] == [True]
        await runner.stop(handle, 0)
        assert await runner.poll(handle) == Exited()


async def test_a_container_that_is_no_worker_of_ours_cannot_be_stopped(tmp_path: Path) -> None:
    docker_or_skip()
    one = spec(tmp_path / "theirs")
    async with driver("docker", tmp_path / "theirs") as theirs, Docker():
        handle = await theirs.start(one)
        async with driver("docker", tmp_path / "ours") as ours:
            await ours.stop(handle, 0)
        assert await theirs.poll(handle) == Running()


def test_a_file_inside_of_a_container_is_found_on_the_host_by_its_innermost_mount() -> None:
    mounts = [
        {"Destination": "/var/lib/wa", "Source": "/srv/wa/server"},
        {"Destination": "/var/lib/wa/sessions", "Source": "/srv/wa/sessions"},
    ]
    own = described({"Image": "sha256:abc", "Mounts": mounts})
    assert own.on_host(Path("/var/lib/wa/sessions/s1")) == Path("/srv/wa/sessions/s1")
    assert own.on_host(Path("/var/lib/wa/log")) == Path("/srv/wa/server/log")
    with pytest.raises(Broken):
        own.on_host(Path("/etc/passwd"))
