"""Files of a worker: its private directory, its secrets and its log."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_CHUNK: Final = 65_536


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


def rotate_log(path: Path, most: int) -> None:
    """Move the last `most` bytes of a longer log to `.1`. Copied and truncated: the worker holds it open for appending.

    However long it is: a worker that was taken over may write gigabytes, and must not fill the memory.
    """
    try:
        if path.stat().st_size <= most:
            return
        older = os.open(path.with_name(f"{path.name}.1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with path.open("rb") as source, os.fdopen(older, "wb") as target:
            begins = source.seek(-most, os.SEEK_END)
            while (left := begins + most - source.tell()) and (chunk := source.read(min(left, _CHUNK))):
                target.write(chunk)
        os.truncate(path, 0)
    except FileNotFoundError:
        return


def hand_over(path: Path, uid: int, gid: int) -> None:
    """Change the owner of a tree to the container's user. Only root can, and only a root server needs to."""
    if os.geteuid() != 0:
        return
    os.chown(path, uid, gid)
    for base, directories, files in os.walk(path):
        for name in (*directories, *files):
            os.chown(Path(base, name), uid, gid, follow_symlinks=False)
