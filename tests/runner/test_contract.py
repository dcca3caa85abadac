"""One suite for every driver: what `contract.Runner` promises."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.runner.cluster import own as own_cluster
from tests.runner.drivers import SESSION, driver, end_of, is_ready, secret_files, spec
from tests.waiting import PATIENCE_S
from wa_orchestrator.runner.contract import AlreadyRunning, Exited, Runner, Running

#: Those that keep secrets as files of this machine.
ON_THIS_MACHINE = ["process", "misbehaving", "remote", pytest.param("docker", marks=pytest.mark.docker)]
DRIVERS = [*ON_THIS_MACHINE, pytest.param("swarm", marks=pytest.mark.docker), "kubernetes"]
#: What a driver's engine is started by.
ENGINES = {"swarm": "swarm_node", "kubernetes": "cluster"}


@pytest.fixture(params=DRIVERS)
async def runner(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runner]:
    """A driver."""
    if request.param in ENGINES and not (request.param == "kubernetes" and own_cluster.chosen()):
        request.getfixturevalue(ENGINES[request.param])
    async with driver(request.param, tmp_path) as made:
        yield made


async def test_when_start_returns_the_worker_runs_and_is_found(runner: Runner, tmp_path: Path) -> None:
    handle = await runner.start(spec(tmp_path, SESSION, 4))
    assert await runner.poll(handle) == Running()
    assert [(each.handle, each.session_id, each.epoch) for each in await runner.survey()] == [(handle, SESSION, 4)]


async def test_there_is_never_a_second_worker_of_a_session(runner: Runner, tmp_path: Path) -> None:
    handle = await runner.start(spec(tmp_path, SESSION, 1))
    with pytest.raises(AlreadyRunning):
        await runner.start(spec(tmp_path, SESSION, 2))
    assert [each.handle for each in await runner.survey()] == [handle]


async def test_when_stop_returns_nothing_of_the_worker_runs_and_stop_may_be_repeated(
    runner: Runner, tmp_path: Path
) -> None:
    one = spec(tmp_path)
    handle = await runner.start(one)
    await is_ready(one)
    for _ in range(2):
        await runner.stop(handle)
        assert isinstance(await runner.poll(handle), Exited)
        assert await runner.survey() == []


async def test_a_stubborn_worker_is_ended_by_force(runner: Runner, tmp_path: Path) -> None:
    one = spec(tmp_path, STUBBORN="1")
    handle = await runner.start(one)
    await is_ready(one)
    async with asyncio.timeout(PATIENCE_S):
        await runner.stop(handle, 1)
    assert isinstance(await runner.poll(handle), Exited)


async def test_a_worker_that_ended_by_itself_has_ended_and_may_be_started_again(runner: Runner, tmp_path: Path) -> None:
    one = spec(tmp_path, SESSION, 1)
    handle = await runner.start(one)
    await end_of(runner, handle, one)
    assert await runner.survey() == []
    (one.auth_dir / "end").unlink()
    again = await runner.start(spec(tmp_path, SESSION, 2))
    assert again != handle
    assert await runner.poll(again) == Running()
    assert isinstance(await runner.poll(handle), Exited)


async def test_the_next_server_finds_the_workers_of_this_one_and_can_stop_them(
    request: pytest.FixtureRequest, runner: Runner, tmp_path: Path
) -> None:
    handle = await runner.start(spec(tmp_path, SESSION, 1))
    kind = request.node.callspec.params["runner"]
    async with driver(kind, tmp_path) as next_server:
        assert [each.handle for each in await next_server.survey()] == [handle]
        assert await next_server.poll(handle) == Running()
        await next_server.stop(handle, 1)
    assert isinstance(await runner.poll(handle), Exited)


async def test_another_installations_workers_are_not_ours(
    request: pytest.FixtureRequest, runner: Runner, tmp_path: Path
) -> None:
    kind = request.node.callspec.params["runner"]
    async with driver(kind, tmp_path / "other") as other:
        await other.start(spec(tmp_path / "other", f"{SESSION}-other"))
        assert await runner.survey() == []


async def test_an_unknown_handle_has_ended_and_can_be_stopped(runner: Runner) -> None:
    for handle in (
        "",
        "nonsense",
        "process/1/1/1",
        "docker/1/0000000000000000",
        "other/1/x",
        "process/1/0/0",
        "swarm/1/x@n",
        "kubernetes/1/x/y@n",
    ):
        assert isinstance(await runner.poll(handle), Exited)
        await runner.stop(handle, 0)


async def test_the_worker_has_its_secrets(runner: Runner, tmp_path: Path) -> None:
    one = spec(tmp_path)
    await runner.start(one)
    await is_ready(one)
    assert (one.auth_dir / "token").read_text() == "canary-token-5f3a9c"


@pytest.mark.parametrize("runner", ON_THIS_MACHINE, indirect=True)
async def test_nobody_else_reads_the_files_with_secrets(runner: Runner, tmp_path: Path) -> None:
    one = spec(tmp_path)
    await runner.start(one)
    await is_ready(one)
    kept = secret_files(tmp_path)
    assert kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*kept, one.auth_dir, kept[0].parent))
