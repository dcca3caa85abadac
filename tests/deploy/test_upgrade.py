"""Yesterday's version and today's on the same data, both ways, each from its wheel; the workers run on throughout."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.deploy.wheels import ROOT, Environment, built_wheel, empty_environment
from tests.processes import Program
from tests.waiting import PATIENCE_S, until_blocking

pytestmark = pytest.mark.slow


def previous_wheel(place: Path) -> Path:
    """The wheel of the commit before this one, with the worker of that commit."""
    source = place / "previous"
    source.mkdir(parents=True)
    packed = subprocess.run(("git", "archive", "HEAD~1"), cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip("there is no commit before this one: a shallow clone, or no repository")
    subprocess.run(("tar", "-x"), cwd=source, input=packed.stdout, check=True)
    if not (source / "hatch_build.py").exists():
        pytest.skip("the commit before this one builds no whole wheel")
    # Its locked packages may be others by a patch, but they need not be downloaded.
    (source / "worker" / "node_modules").symlink_to(ROOT / "worker" / "node_modules")
    node = ROOT / ".venv" / "node" / "bin" / "node"
    subprocess.run((str(node), "build/build.mjs"), cwd=source / "worker", check=True, capture_output=True)
    return built_wheel(place / "previous-dist", source)


@contextmanager
def up(installed: Environment, home: Path, *options: str) -> Iterator[Program]:
    """The server, upgraded at the end: SIGTERM leaves its workers."""
    command = (str(installed.program), "up", "--simulate", *options, "--port", "0", "--gateway-port", "0")
    server = Program(command, log=home / "log", env=empty_environment(home), cwd=home)
    try:
        yield server
    finally:
        server.end(signal.SIGTERM)


def connected(installed: Environment, home: Path) -> list[str]:
    """The sessions that are connected, by the installed command line."""
    command = (str(installed.program), "sessions", "list", "--json")
    told = subprocess.run(
        command, cwd=home, env=empty_environment(home), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    listed = json.loads(told.stdout)["sessions"] if told.returncode == 0 else []
    return [each["sessionId"] for each in listed if each["status"] == "connected"]


def workers(home: Path) -> dict[str, int]:
    """The pids of this installation's workers, by session."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            lines = (place / "environ").read_bytes().decode(errors="replace").split("\0")
            env = dict(line.split("=", 1) for line in lines if "=" in line)
            if env.get("AUTH_DIR", "").startswith(str(home)):
                found[env["SESSION_ID"]] = int(place.name)
    return found


def test_an_upgrade_and_a_rollback_keep_every_worker_and_its_session_linked(tmp_path: Path) -> None:
    older, newer = previous_wheel(tmp_path), built_wheel(tmp_path / "dist")
    installed = Environment(tmp_path / "venv", older)
    home = tmp_path / "home"
    try:
        with up(installed, home, "--fleet", "2") as server:
            server.said("2 of 2 simulated phones are linked")
        began = workers(home)
        assert len(began) == 2
        for wheel in (newer, older):
            installed.replace(wheel)
            with up(installed, home) as server:
                server.said("is ready")
                until_blocking(lambda: len(connected(installed, home)) == 2, server.tail)
            assert workers(home) == began, "the workers run on while the server is another version"
    finally:
        last = Program(
            (str(installed.program), "up", "--simulate", "--port", "0", "--gateway-port", "0"),
            log=home / "log", env=empty_environment(home), cwd=home,
        )  # fmt: skip
        last.said("is ready")
        last.end(signal.SIGINT)  # ends the workers, too
        shutil.rmtree(tmp_path / "venv", ignore_errors=True)
