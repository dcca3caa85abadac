"""A worker's private directory: its secrets as files, for nobody else's eyes."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def private_directory(path: Path) -> Path:
    """Make a directory that only its owner may enter, whatever it was before."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_secrets(directory: Path, secrets: Mapping[str, str]) -> dict[str, Path]:
    """Put each secret into a file of its own, 0600; what was there before is gone. Gives the paths by name."""
    shutil.rmtree(directory, ignore_errors=True)
    private_directory(directory)
    return {name: _write(directory / name.lower(), value) for name, value in secrets.items()}


def _write(path: Path, value: str) -> Path:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(value)
    return path


def hand_over(path: Path, uid: int, gid: int) -> None:
    """Give a tree to the user a container runs as; only root can, and only root needs to."""
    if os.geteuid() != 0:
        return
    os.chown(path, uid, gid)
    for base, directories, files in os.walk(path):
        for name in (*directories, *files):
            os.chown(Path(base, name), uid, gid, follow_symlinks=False)
