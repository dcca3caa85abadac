"""`scripts/pin_base.sh` writes the digest of the base image into .env, or says why not and changes nothing."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.deploy.wheels import ROOT

DIGEST = "sha256:" + "5e" * 32
#: Stands in for the engine and its registry.
DOCKER = """\
#!/bin/sh
case "$*" in
    "pull --quiet debian:trixie-slim") exit {pull} ;;
    "image inspect --format {{{{index .RepoDigests 0}}}} debian:trixie-slim") echo "{digest}" ;;
    *) echo "unexpected: $*" >&2; exit 64 ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the script needs of a clone with settings."""
    for name in ("scripts/pin_base.sh", "Dockerfile"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / ".env").write_text("MAX_BACKUPS=3\nWA_BASE=debian:trixie-slim@sha256:old\nTIMEZONE=UTC\n")
    (tmp_path / "bin").mkdir()
    return tmp_path


def run(clone: Path, *, digest: str = f"debian@{DIGEST}", pull: int = 0) -> subprocess.CompletedProcess[str]:
    docker = clone / "bin" / "docker"
    docker.write_text(DOCKER.format(pull=pull, digest=digest))
    docker.chmod(0o755)
    command, path = (str(clone / "scripts/pin_base.sh"),), f"{clone / 'bin'}:/usr/bin:/bin"
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False)


def test_the_digest_takes_the_place_of_an_older_one_and_the_rest_stays(clone: Path) -> None:
    done = run(clone)
    assert (done.returncode, done.stderr) == (0, "")
    pinned = f"WA_BASE=debian:trixie-slim@{DIGEST}"
    assert (clone / ".env").read_text() == f"MAX_BACKUPS=3\nTIMEZONE=UTC\n{pinned}\n"
    assert stat.S_IMODE((clone / ".env").stat().st_mode) == 0o600
    assert pinned in done.stdout


@pytest.mark.parametrize("engine", [{"pull": 1}, {"digest": "<no value>"}, {"digest": ""}], ids=str)
def test_without_a_registry_nothing_is_changed(clone: Path, engine: dict[str, object]) -> None:
    before = (clone / ".env").read_text()
    done = run(clone, **engine)  # type: ignore[arg-type]
    assert done.returncode == 1
    assert "Nothing was changed" in done.stderr
    assert (clone / ".env").read_text() == before


def test_without_settings_it_says_what_comes_first(clone: Path) -> None:
    (clone / ".env").unlink()
    done = run(clone)
    assert (done.returncode, "scripts/setup.sh" in done.stderr) == (2, True)
    assert not (clone / ".env").exists()
