"""Wheels of the product, and empty environments to install them in."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_UV = Path(sys.executable).with_name("uv")


def built_wheel(to: Path, source: Path = ROOT) -> Path:
    """Build the wheel of a source tree, with the build backend that is locked."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(to)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    [wheel] = to.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment with nothing in it but a wheel and its locked dependencies."""

    def __init__(self, place: Path, wheel: Path, lock: Path = ROOT / "requirements.lock") -> None:
        self._place = place
        _uv("venv", "--python", sys.executable, str(place))
        python = str(place / "bin" / "python")
        # By hash, from the registry or from what an installation before has left in uv's cache: seconds, not minutes.
        _uv("pip", "sync", "--python", python, "--require-hashes", str(lock))
        _uv("pip", "install", "--python", python, "--no-deps", str(wheel))

    @property
    def program(self) -> Path:
        return self._place / "bin" / "wa-orchestrator"

    def replace(self, wheel: Path) -> None:
        """Install another version of the product over this one, as an upgrade does."""
        _uv("pip", "install", "--python", str(self._place / "bin" / "python"), "--no-deps", "--reinstall", str(wheel))


def empty_environment(home: Path) -> dict[str, str]:
    """What a login on a fresh machine has, and nothing of the person who runs the tests."""
    home.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def _uv(*arguments: str) -> None:
    program = str(_UV) if _UV.is_file() else shutil.which("uv")
    assert program, "uv is missing: run `make setup`"
    done = subprocess.run([program, *arguments, "--quiet"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
