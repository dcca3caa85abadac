"""One wheel is the whole installation: the product runs from it without a repository, Node, Redis or make."""

import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.deploy.wheels import ROOT, Environment, built_wheel, empty_environment
from tests.processes import Program
from tests.waiting import PATIENCE_S
from wa_orchestrator.store.engine.scripts import FILES


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_worker_every_script_and_all_licences(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    scripts = {str(path.relative_to(ROOT / "src")) for path in FILES.values()}
    worker = {f"wa_orchestrator/worker/{name}" for name in ("loader.cjs", "worker.cjs", "THIRD-PARTY.txt")}
    licences = {name.rpartition("licenses/")[2] for name in names if "/licenses/" in name}
    assert (scripts | worker) - names == set()
    assert len([name for name in names if name.startswith("wa_orchestrator/worker/proto-")]) == 1
    assert licences == {"LICENSE", "worker/LICENSE"}


def test_the_same_source_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert built_wheel(tmp_path).read_bytes() == wheel.read_bytes()


def test_a_wheel_without_the_worker_is_not_built(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        (source / name).symlink_to(ROOT / name)
    (source / "src").symlink_to(ROOT / "src")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        built_wheel(tmp_path / "dist", source)
    assert "run `make worker` first" in refused.value.stderr


@pytest.mark.slow
def test_from_the_wheel_alone_three_phones_are_linked_and_their_messages_read(wheel: Path, tmp_path: Path) -> None:
    installed = Environment(tmp_path / "venv", wheel)
    home = tmp_path / "home"
    environment = empty_environment(home)
    options = ("--simulate", "--fleet", "3", "--port", "0", "--gateway-port", "0")
    server = Program((str(installed.program), "up", *options), log=tmp_path / "log", env=environment, cwd=home)
    try:
        server.said("3 of 3 simulated phones are linked, and 3 of their messages were read")
        send = (str(installed.program), "send", "972500000009", "Hello", "--phone", "972500000001", "--wait")
        sent = subprocess.run(
            send, cwd=home, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert sent.returncode == 0, sent.stdout + sent.stderr
    finally:
        server.end(signal.SIGINT)
