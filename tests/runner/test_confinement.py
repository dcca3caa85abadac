"""The layers that confine a worker, each by itself, and what happens where one is missing."""

import asyncio
import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runner.drivers import spec
from wa_orchestrator.runner import process, process_identity
from wa_orchestrator.runner.confinement import address_filter, landlock, launch, layers, syscall_filter
from wa_orchestrator.runner.confinement.launch import Reach, launch_command, reach_of, spawn
from wa_orchestrator.runner.confinement.layers import Gap, Layers
from wa_orchestrator.runner.contract import StartFailed, WorkerSpec
from wa_orchestrator.runner.node_command import node_binary
from wa_orchestrator.runner.process import USERS, ProcessRunner
from wa_orchestrator.runner.worker_users import WorkerUsers

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="users of their own need root")
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
needs_filter = pytest.mark.skipif(not syscall_filter.is_known(), reason="there is no filter for this machine")
#: Calls the kernel directly, as native code of an attacker would, and prints the error of each.
NATIVE = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    getattr(libc, name)(*arguments)
    return ctypes.get_errno()
def raw(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(number, *arguments)
    return ctypes.get_errno()
target, path = int(sys.argv[1]), sys.argv[2].encode()
print(json.dumps({
    "ptrace": call("ptrace", 16, target, 0, 0),
    "kill": call("kill", target, 0),
    "kill itself": call("kill", os.getpid(), 0),
    "kill all": call("kill", -1, 0),
    "limits of another": call("prlimit", target, 7, None, None),
    "own limits": call("prlimit", 0, 7, None, None),
    "fork": call("fork"),
    "chmod": call("chmod", path, 0o777),
    "truncate": call("truncate", path, 0),
    "MPTCP": call("socket", 2, 1, 262),
    "TCP": call("socket", 2, 1, 6),
    "UDP": call("socket", 2, 2, 0),
    "Unix": call("socket", 1, 1, 0),
    "netlink": call("socket", 16, 3, 0),
    "raw": call("socket", 2, 3, 1),
    "pair that sends anywhere": call("socketpair", 1, 2, 0, (ctypes.c_int * 2)()),
    "io_uring": raw(425, 1, None),
    "unshare": call("unshare", 0x10000000),
}))
"""


@needs_filter
def test_the_filter_refuses_native_code_what_reaches_beyond_the_process(tmp_path: Path) -> None:
    victim = tmp_path / "file"
    victim.write_text("kept")
    command = (sys.executable, "-c", NATIVE, str(os.getppid()), str(victim))
    reach = Reach(ports=(1,), looks_up_names=False)
    words = launch_command(Layers(syscall_filter=True), command, reach, root=tmp_path, user=None)
    with (tmp_path / "said").open("wb") as output:
        assert spawn(words, dict(os.environ), tmp_path, output.fileno()).wait() == 0
    said = json.loads((tmp_path / "said").read_text())
    allowed = {name for name, number in said.items() if number == 0}
    assert allowed == {"kill itself", "own limits", "TCP"}
    assert said["io_uring"] == errno.ENOSYS
    assert victim.read_text() == "kept"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_the_filter_stays_inside_and_every_path_ends(machine: str) -> None:
    for datagrams in (True, False):
        program = syscall_filter.program(machine, 1234, datagrams=datagrams)
        for at, (code, yes, no, _) in enumerate(program):
            if code & 0x07 == 0x05:
                assert at + 1 + max(yes, no) < len(program)
        assert program[-1][0] == 0x06


@needs_landlock
def test_landlock_leaves_only_what_was_given(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    script = (
        "const fs = require('fs'); const seen = [];"
        "for (const path of process.argv.slice(1)) try { fs.readFileSync(path); seen.push(path) } catch {}"
        "fs.writeFileSync(process.argv[1] + '.seen', JSON.stringify(seen))"
    )
    mine, theirs = str(tmp_path / "mine" / "file"), str(tmp_path / "theirs" / "file")
    command = (str(node_binary()), "-e", script, mine, theirs, "/etc/passwd", "/proc/self/stat", "/proc/1/cmdline")
    reach = Reach(write=(str(tmp_path / "mine"),), ports=(1,))
    words = launch_command(Layers(landlock=landlock.version()), command, reach, root=tmp_path, user=None)
    with (tmp_path / "said").open("wb") as output:
        assert spawn(words, {}, tmp_path, output.fileno()).wait() == 0, (tmp_path / "said").read_text()
    assert json.loads(Path(f"{mine}.seen").read_text()) == [mine, "/proc/self/stat"]


def test_a_confinement_that_fails_is_a_failed_start_with_its_reason(tmp_path: Path) -> None:
    words = launch_command(Layers(), ("/nonexistent/node",), Reach(), root=tmp_path, user=None)
    with (tmp_path / "said").open("wb") as output, pytest.raises(StartFailed, match="No such file"):
        spawn(words, {}, tmp_path, output.fileno())


def test_layers_that_a_machine_refuses_are_left_out_and_named() -> None:
    promised = layers._promised(USERS)

    def refuses_all(tried: Layers) -> str | None:
        return "refused" if tried.own_users or tried.landlock or tried.syscall_filter else None

    found = layers.find(refuses_all, USERS)
    assert (found.own_users, found.landlock, found.syscall_filter) == (False, 0, False)
    assert Gap.NO_LANDLOCK in found.gaps
    assert Gap.NO_SYSCALL_FILTER in found.gaps
    assert not found.separates_files
    assert layers.find(lambda _: None, USERS) == promised


def test_without_control_groups_the_other_layers_stay() -> None:
    promised = layers._promised(USERS)
    promised = replace(promised, control_group="/sys/fs/cgroup", gaps=())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "_promised", lambda _: promised)
        found = layers.find(lambda tried: "read-only" if tried.control_group else None, USERS)
    assert found == replace(promised, control_group="", gaps=(Gap.NO_ADDRESS_LIMITS,), details=("read-only",))


@pytest.mark.parametrize(
    ("mounts", "group", "found"),
    [
        ("41 31 0:38 / {0} rw - cgroup2 cgroup2 rw", "0::/a.slice/b", "{0}/a.slice/b"),
        ("41 31 0:38 / {0} rw - cgroup2 cgroup2 rw", "0::/", "{0}"),
        ("41 31 0:38 /a.slice {0} rw - cgroup2 cgroup2 rw", "0::/a.slice/b", "{0}/b"),
        ("41 31 0:38 / {0} rw - cgroup2 cgroup2 rw", "0::/gone", None),
        ("41 31 0:38 / {0} rw - cgroup2 cgroup2 rw", "4:memory:/x", None),
        ("41 31 0:38 / {0} rw - cgroup cgroup rw", "0::/", None),
    ],
)
def test_the_control_group_of_this_process_is_found_where_it_is_mounted(
    tmp_path: Path, mounts: str, group: str, found: str | None
) -> None:
    place = tmp_path / "cgroup"
    (place / "a.slice" / "b").mkdir(parents=True)
    (place / "b").mkdir()
    (tmp_path / "mountinfo").write_text(mounts.format(place) + "\n")
    (tmp_path / "cgroup-of-self").write_text(group + "\n")
    proc = tmp_path / "proc"
    proc.mkdir()
    (tmp_path / "mountinfo").rename(proc / "mountinfo")
    (tmp_path / "cgroup-of-self").rename(proc / "cgroup")
    assert address_filter.parent_group(str(proc)) == (found.format(place) if found else None)


#: Connects to addresses with a port, and prints the error of each.
CONNECTS = """
import json, socket, sys
def connect(host, port):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        tried.settimeout(5)
        return tried.connect_ex((host, port))
print(json.dumps([connect(*each) for each in json.loads(sys.argv[1])]))
"""


@pytest.fixture
def parent_group() -> Iterator[Path]:
    """A control group for the groups of one test: other tests have theirs beside it."""
    group = address_filter.parent_group()
    if group is None or layers.find(lambda tried: launch.attempt(tried, ("/bin/true",), 0), USERS).gaps:
        pytest.skip("this machine has no control groups version 2 that can be written to")
    parent = Path(group, f"wa-test-{os.getpid()}")
    parent.mkdir()
    yield parent
    launch.remove_left_groups(Layers(control_group=str(parent)), time.time() + 3600)
    parent.rmdir()


@needs_root
def test_a_control_group_connects_to_its_addresses_only_and_goes_after_its_worker(
    tmp_path: Path, parent_group: Path
) -> None:
    only = Layers(control_group=str(parent_group))
    reach = Reach(ports=(9,), addresses=(("127.0.0.1", 9), ("::1", 9)), looks_up_names=False)
    tried = [("127.0.0.1", 9), ("127.0.0.1", 10), ("127.0.0.2", 9), ("::1", 9), ("::1", 10), ("::ffff:127.0.0.1", 9)]
    command = (sys.executable, "-c", CONNECTS, json.dumps(tried))
    words = launch_command(only, command, reach, root=tmp_path, user=None)
    with (tmp_path / "said").open("wb") as output:
        assert spawn(words, dict(os.environ), tmp_path, output.fileno()).wait(60) == 0
    refused, closed = errno.EPERM, {errno.ECONNREFUSED, errno.EADDRNOTAVAIL}  # IPv6 may be off
    said = json.loads((tmp_path / "said").read_text())
    assert (said[0], said[1], said[2], said[4], said[5]) == (errno.ECONNREFUSED, *[refused] * 4)
    assert said[3] in closed
    made = launch.group_of(only, tmp_path)
    assert made is not None
    assert Path(made).is_dir()
    launch.remove_left_groups(only, time.time())
    assert Path(made).is_dir()  # it may have been made just now, by another server's launcher
    launch.remove_left_groups(only, time.time() + 3600)
    assert not Path(made).exists()


def test_a_worker_connects_to_its_proxy_and_the_server_only() -> None:
    given = {"WEBHOOK_URL": "http://127.0.0.1:3001/webhook", "OUTBOX_URL": "https://127.0.0.1/outbox"}

    def reach(proxy: str) -> Reach:
        secrets = {"PROXY_URL": proxy} if proxy else {}
        return reach_of(WorkerSpec("s", 1, Path("/s"), given, secrets), (), ())

    assert (reach("socks5h://192.0.2.7:1080").ports, reach("socks5h://192.0.2.7:1080").looks_up_names) == (
        [443, 1080, 3001],
        False,
    )
    assert reach("socks5h://proxy.example.com:1080").ports == [53, 443, 1080, 3001]
    assert reach("").ports is None
    assert reach("socks5h://192.0.2.7:1080").addresses == [("127.0.0.1", 443), ("127.0.0.1", 3001), ("192.0.2.7", 1080)]
    assert reach("socks5h://proxy.example.com:1080").addresses is None  # its name may lead to any


@needs_root
def test_a_user_is_kept_by_restarts_and_never_shared(tmp_path: Path) -> None:
    home, sessions = tmp_path / "workers", tmp_path / "sessions"
    numbers = range(1_950_000_000, 1_950_000_003)
    for name in "abcd":
        (home / name).mkdir(parents=True)
        (sessions / name).mkdir(parents=True)
    users = WorkerUsers(home, numbers)
    given = {name: users.assign(name, sessions / name) for name in "abc"}
    assert sorted(given.values()) == list(numbers)
    again = WorkerUsers(home, numbers)
    assert {name: again.assign(name, sessions / name) for name in "cba"} == given
    with pytest.raises(StartFailed, match="WORKER_USERS"):
        again.assign("d", sessions / "d")
    (sessions / "b").rmdir()  # its session is gone for good
    assert again.assign("d", sessions / "d") == given["b"]
    assert again.session_of(given["b"]) == "d"


@needs_root
@needs_landlock
async def test_a_worker_that_overwrites_its_environment_is_found_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native code can write there, to hide from a survey or to pretend to be another session's worker."""
    command = (str(node_binary()), "-e", "setInterval(() => {}, 1000)")
    found = await asyncio.to_thread(
        layers.find, lambda one: launch.attempt(one, (command[0], "-e", "0"), USERS[0]), USERS
    )
    assert found.own_users
    runner = ProcessRunner(tmp_path / "workers", command, found)
    handle = await runner.start(spec(tmp_path, "forger", 3))
    pid, read = int(handle.split("/")[2]), process_identity.environment
    marker = (read(pid) or {})[process.MARKER]
    try:
        for forged in ({}, {process.MARKER: marker, "SESSION_ID": "victim", "EPOCH": "many"}):
            monkeypatch.setattr(
                process_identity, "environment", lambda each, it=forged: it if each == pid else read(each)
            )
            next_server = ProcessRunner(tmp_path / "workers", command, found)
            assert [(each.handle, each.session_id, each.epoch) for each in await next_server.survey()] == [
                (handle, "forger", 0)
            ]
    finally:
        await runner.stop(handle, 0)


def test_the_launcher_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-I", "-S", "-X", "importtime", str(launch.LAUNCHER), "status=2", "--", "/bin/true"),
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "wa_orchestrator.runner.confinement.landlock" in imported
    assert not {"json", "pathlib", "subprocess", "pydantic"} & imported
