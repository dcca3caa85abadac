"""What only the driver of processes promises."""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runner.drivers import COMMAND, SESSION, end_of, facts, is_ready, spec
from tests.waiting import until
from wa_orchestrator.errors import Refused
from wa_orchestrator.runner import process, process_identity
from wa_orchestrator.runner.contract import Exited, Running, StartFailed
from wa_orchestrator.runner.node_command import worker_command
from wa_orchestrator.runner.process import ProcessRunner
from wa_orchestrator.runner.worker_files import rotate_log


def pid_of(handle: str) -> int:
    return int(handle.split("/")[2])


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _bystander() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)


@pytest.fixture
def runner(tmp_path: Path) -> ProcessRunner:
    return ProcessRunner(tmp_path / "workers", COMMAND)


async def test_no_secret_is_in_the_process_list(runner: ProcessRunner, tmp_path: Path) -> None:
    handle = await runner.start(spec(tmp_path))
    seen = facts(handle, "environ", "cmdline")
    await runner.stop(handle, 0)
    assert b"WORKER_TOKEN_FILE" in seen
    assert b"canary" not in seen


async def test_a_worker_survives_the_server_that_started_it(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, os, signal\n"
        "from tests.runner.drivers import COMMAND, spec\n"
        "from wa_orchestrator.runner.process import ProcessRunner\n"
        f"home = pathlib.Path({str(tmp_path)!r})\n"
        "print(asyncio.run(ProcessRunner(home / 'workers', COMMAND).start(spec(home))), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    server = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    handle = server.stdout.strip()
    runner = ProcessRunner(tmp_path / "workers", COMMAND)
    assert server.returncode == -signal.SIGKILL
    assert await runner.poll(handle) == Running()
    await runner.stop(handle, 0)


async def test_a_number_that_was_taken_over_is_no_worker_and_is_not_signalled(runner: ProcessRunner) -> None:
    bystander = _bystander()
    try:
        handle = f"process/1/{bystander.pid}/1"
        assert await runner.poll(handle) == Exited()
        await runner.stop(handle, 0)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


async def test_a_frozen_worker_runs_and_can_be_ended(runner: ProcessRunner, tmp_path: Path) -> None:
    handle = await runner.start(spec(tmp_path))
    os.kill(pid_of(handle), signal.SIGSTOP)
    assert await runner.poll(handle) == Running()
    await runner.stop(handle, 0.2)
    assert isinstance(await runner.poll(handle), Exited)


async def test_what_a_worker_started_ends_with_it(tmp_path: Path) -> None:
    script = 'sleep 300 & echo $! > "$AUTH_DIR/child"; echo "$EPOCH" > "$AUTH_DIR/ready"; wait'
    runner = ProcessRunner(tmp_path / "workers", ("/bin/sh", "-c", script))
    one = spec(tmp_path)
    handle = await runner.start(one)
    await is_ready(one)
    child = int((one.auth_dir / "child").read_text())
    await runner.stop(handle, 1)
    assert process_identity.start_time(child) is None


@pytest.mark.parametrize("lacks", [errno.EMFILE, errno.ENOSYS])
async def test_without_pidfds_workers_are_found_and_ended_all_the_same(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    def refuse(_: int) -> int:
        raise OSError(lacks, os.strerror(lacks))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    one = spec(tmp_path)
    handle = await runner.start(one)
    assert [each.handle for each in await runner.survey()] == [handle]
    assert await runner.poll(handle) == Running()
    assert await end_of(runner, handle, one) == Exited(7)
    assert await runner.survey() == []
    (one.auth_dir / "end").unlink()
    again = await runner.start(one)
    await runner.stop(again)
    assert isinstance(await runner.poll(again), Exited)


async def test_a_survey_reads_no_process_that_it_knows(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await runner.start(spec(tmp_path))
    read: list[int] = []
    has_variable = process_identity.has_variable

    def reads(pid: int, name: str, value: str) -> bool:
        read.append(pid)
        return has_variable(pid, name, value)

    monkeypatch.setattr(process_identity, "has_variable", reads)
    found = await runner.survey()
    await runner.stop(handle, 0)
    assert [each.handle for each in found] == [handle]
    assert os.getpid() in read
    assert pid_of(handle) not in read


async def test_workers_that_have_ended_leave_no_descriptor_open(runner: ProcessRunner, tmp_path: Path) -> None:
    before = _open_files()
    for epoch in range(1, 4):
        await runner.stop(await runner.start(spec(tmp_path, SESSION, epoch)), 1)
    one = spec(tmp_path, SESSION, 4)
    await end_of(runner, await runner.start(one), one)
    await runner.survey()
    assert _open_files() <= before


async def test_a_start_that_is_cancelled_has_ended_when_the_caller_looks_for_what_it_left(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    one = spec(tmp_path)
    starting = asyncio.create_task(runner.start(one))
    await until(one.auth_dir.is_dir, "the start is under way")
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    found = await runner.survey()
    for each in found:
        await runner.stop(each.handle, 0)
    assert [each.session_id for each in found] == [SESSION]


async def test_the_code_of_an_end_is_told_by_the_server_that_started_it(runner: ProcessRunner, tmp_path: Path) -> None:
    one = spec(tmp_path)
    handle = await runner.start(one)
    assert await end_of(runner, handle, one) == Exited(7)


async def test_a_program_that_is_not_there_cannot_start(tmp_path: Path) -> None:
    runner = ProcessRunner(tmp_path / "workers", ("/nonexistent/node",))
    with pytest.raises(StartFailed):
        await runner.start(spec(tmp_path))
    assert await runner.survey() == []


async def test_limits_are_in_force(runner: ProcessRunner, tmp_path: Path) -> None:
    handle = await runner.start(spec(tmp_path))
    limits = facts(handle, "limits").decode()
    await runner.stop(handle, 0)
    table = {line[:26].strip(): line[26:].split()[:2] for line in limits.splitlines()}
    assert table["Max core file size"] == ["0", "0"]
    assert table["Max open files"] == ["256", "256"]


async def test_a_long_log_is_cut_while_the_worker_writes_it(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_LOG_BYTES", 1000)
    handle = await runner.start(spec(tmp_path))
    with runner.log_file(SESSION).open("ab") as file:
        file.write(b"x" * 5000)
    await runner.survey()
    sizes = [path.stat().st_size for path in sorted(runner.log_file(SESSION).parent.glob("log*"))]
    await runner.stop(handle, 0)
    assert sizes == [0, 1000]


def test_only_the_end_of_a_log_is_read_however_long_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(64 * 2**30)  # a hole: it takes no space on disk, but no machine has the memory for it
        file.seek(0, os.SEEK_END)
        file.write(b"the last line\n")
    rotate_log(path, 1_000_000)
    older = path.with_name("log.1")
    assert (path.stat().st_size, older.stat().st_size) == (0, 1_000_000)
    assert older.read_bytes().endswith(b"the last line\n")


def test_a_missing_bundle_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="make worker"):
        worker_command(tmp_path / "worker.cjs", 256)


def test_a_loader_beside_the_bundle_is_preferred(tmp_path: Path) -> None:
    bundle = tmp_path / "worker.cjs"
    bundle.touch()
    assert worker_command(bundle, 256, Path("/n"))[-1] == str(bundle)
    (tmp_path / "loader.cjs").touch()
    assert worker_command(bundle, 256, Path("/n"))[-1] == str(tmp_path / "loader.cjs")
