"""A disk whose power can be cut: what nobody had synced is gone, as on a real machine."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: `EXT4_IOC_SHUTDOWN` with "do not flush the journal": from then on nothing reaches the disk, whatever the kernel holds.
_SHUT_DOWN, _WITHOUT_FLUSH = 0x8004587D, 2


@dataclass
class PoweredDisk:
    """An ext4 file system in a file, mounted at a directory."""

    image: Path
    place: Path

    def mount(self) -> bool:
        """Mount it, which recovers what was synced; whether that is allowed here."""
        command = ["mount", "-t", "ext4", "-o", "loop", str(self.image), str(self.place)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def cut_power(self) -> None:
        """Lose what is not on the disk by now. Whoever still has files there gets errors."""
        directory = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, _SHUT_DOWN, struct.pack("I", _WITHOUT_FLUSH))
        finally:
            os.close(directory)

    def restore_power(self) -> None:
        """Mount what was on the disk.

        A copy of it: the old one stays dead for as long as anybody has it, and namespaces of other programs may.
        """
        self.unmount()
        copy = self.image.with_name(f"{self.image.name}+")
        subprocess.run(["cp", "--sparse=always", str(self.image), str(copy)], check=True)
        self.image.unlink()
        self.image = copy
        assert self.mount(), "the disk cannot be read after the power cut"

    def unmount(self) -> None:
        """Unmount it."""
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)


@contextmanager
def powered_disk(image: Path, place: Path, megabytes: int) -> Iterator[PoweredDisk]:
    """A disk at a directory; the test is skipped where none can be mounted."""
    place.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(megabytes * 1024 * 1024)
    disk = PoweredDisk(image, place)
    if not (_is_formatted(image) and disk.mount()):
        pytest.skip("a disk of its own needs root, loop devices and mkfs.ext4")
    try:
        yield disk
    finally:
        disk.unmount()


def _is_formatted(image: Path) -> bool:
    try:
        return subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
