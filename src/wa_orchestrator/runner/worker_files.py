"""Files of a worker: its private directory and its secrets."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def private_directory(path: Path) -> Path:
    """Create a directory with mode 0700, or set that mode if it exists."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_secrets(directory: Path, secrets: Mapping[str, str]) -> dict[str, Path]:
    """Replace the directory by one file (0600) per secret. Return the paths by name."""
    shutil.rmtree(directory, ignore_errors=True)
    private_directory(directory)
    return {name: _write(directory / name.lower(), value) for name, value in secrets.items()}


def _write(path: Path, value: str) -> Path:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(value)
    return path


def hand_over(path: Path, uid: int, gid: int) -> None:
    """Change the owner of a tree to the container's user. Only root can, and only a root server needs to."""
    if os.geteuid() != 0:
        return
    os.chown(path, uid, gid)
    for base, directories, files in os.walk(path):
        for name in (*directories, *files):
            os.chown(Path(base, name), uid, gid, follow_symlinks=False)
