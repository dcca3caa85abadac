"""A disk of a few megabytes, which a test can fill."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """Mount a small disk at a directory; the test is skipped where that is not allowed."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(place)]
    with suppress(FileNotFoundError):
        if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
            try:
                yield place
            finally:
                subprocess.run(["umount", "--lazy", str(place)], check=True)
            return
    pytest.skip("a disk of its own needs root")


def fill(disk: Path) -> Path:
    """Leave no room on the disk; returns the file to delete."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * 4096):
            pass
    return ballast
