"""`scripts/setup.sh` may be run again at any time: what is there stays as it is."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.wheels import ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files cannot be given to another user without root")
#: Where the container of `setup` sees what the host has here.
PLACES = {"/env": ".env", "/data": "data", "/backups": "backups", "/run/wa-orchestrator": "socket"}
#: Stands in for the engine: the command that compose would run in a container is run as it is.
DOCKER = """\
#!/bin/sh
case "$*" in
    "compose version" | "compose build --quiet") ;;
    "compose run --rm setup") exec {command} ;;
    *) echo "unexpected: $*" >&2; exit 64 ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the script needs of a fresh clone, and a `docker` for it."""
    made = tmp_path / "clone"
    for name in ("scripts/setup.sh", "env.example"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, made / name)
    (made / "socket").mkdir()
    setup = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["setup"]["command"]
    program = Path(sys.executable).with_name("wa-orchestrator")
    command = shlex.join([str(program), *(PLACES.get(word, word) for word in setup)])
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text(DOCKER.format(command=command))
    docker.chmod(0o755)
    return made


def run(clone: Path) -> str:
    path = f"{clone.parent / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(
        (clone / "scripts" / "setup.sh",), env={"PATH": path, "HOME": str(clone)}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def everything(clone: Path) -> dict[str, tuple[str, int, bytes]]:
    """Every file and directory with its mode, owner and content."""
    found = {}
    for path in sorted(clone.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(clone))] = (stat.filemode(status.st_mode), status.st_uid, content)
    return found


def test_the_second_run_changes_nothing(clone: Path) -> None:
    first_said = run(clone)
    assert "Written: .env" in first_said
    assert "AUTH_KEY" in first_said
    first = everything(clone)
    assert {"data/server/secrets.json", "data/redis/redis.conf", "data/config/redis_url"} <= set(first)
    assert {first[name][0] for name in (".env", "data/server/secrets.json")} == {"-rw-------"}

    second_said = run(clone)
    assert everything(clone) == first
    assert "AUTH_KEY" not in second_said


def test_settings_of_the_operator_stay_and_are_closed_to_others(clone: Path) -> None:
    (clone / ".env").write_text("MAX_BACKUPS=3\n")
    (clone / ".env").chmod(0o644)
    run(clone)
    assert ((clone / ".env").read_text(), stat.S_IMODE((clone / ".env").stat().st_mode)) == ("MAX_BACKUPS=3\n", 0o600)
    assert (clone / "data/config/.env").read_text() == "MAX_BACKUPS=3\n"
