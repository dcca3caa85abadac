"""A mount namespace with only the files that a worker needs, each at its usual path."""

import os
import stat
from collections.abc import Iterable

from wa_orchestrator.runner.confinement import kernel

#: Mode 0755: everybody may pass, only root may write; the size is for directories and links alone.
_ROOT_OPTIONS = "mode=0755,size=256k,nr_inodes=1k"
#: Only processes of the same user are visible, and nothing of the machine. Linux before 5.8 knows only the first part.
_PROC_OPTIONS = ("hidepid=2,subset=pid", "hidepid=2")


def enter(directory: str, readable: Iterable[str], writable: Iterable[str]) -> None:
    """Make `directory`, which must be empty, the root of a view with these files and directories. Needs root.

    A path that does not exist is left out; one that is a symbolic link gets the link's target.
    """
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_IPC)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", directory, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, _ROOT_OPTIONS)
    for path in sorted(readable):
        _show(directory, path, kernel.MS_RDONLY)
    for path in sorted(writable):
        _show(directory, path, 0)
    _mount_proc(f"{directory}/proc")
    kernel.mount("none", directory, None, kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID, _ROOT_OPTIONS)
    kernel.enter_root(directory)


def _show(directory: str, path: str, read_only: int) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    target = directory + path
    if os.path.lexists(target):
        return  # beneath something that is shown already
    os.makedirs(target if stat.S_ISDIR(mode) else os.path.dirname(target), 0o755, exist_ok=True)
    if not stat.S_ISDIR(mode):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    kernel.mount(path, target, None, kernel.MS_BIND)
    # Character devices (/dev/null) are files that must keep working as devices.
    devices = 0 if stat.S_ISCHR(mode) else kernel.MS_NODEV
    kernel.mount("none", target, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_NOSUID | devices | read_only)


def _mount_proc(target: str) -> None:
    os.mkdir(target, 0o755)
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    for options in _PROC_OPTIONS[:-1]:
        try:
            kernel.mount("proc", target, "proc", flags, options)
        except OSError:
            continue
        return
    kernel.mount("proc", target, "proc", flags, _PROC_OPTIONS[-1])
