"""Calls into the C library that Python does not have. Imported by the launcher: as few imports as possible."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
#: CLONE_NEWNS: mounts of its own; CLONE_NEWIPC: shared memory and semaphores of its own.
NEW_MOUNTS, NEW_IPC = 0x00020000, 0x08000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
#: By the machine's name in `os.uname()`.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def check(result: int, what: str) -> int:
    """Return the result of a call, or raise OSError with what was tried."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object) -> int:
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


def set_no_new_privs() -> None:
    check(_prctl(PR_SET_NO_NEW_PRIVS, 1), "no_new_privs")


def drop_capabilities() -> None:
    """Empty the bounding set: whatever is executed from now on gets no capability, also as root."""
    for number in range(64):
        if _prctl(PR_CAPBSET_DROP, number) < 0:
            if number == 0:
                check(-1, "drop capabilities")
            return  # the kernel's last capability


def _prctl(option: int, argument: int) -> int:
    words = (ctypes.c_ulong(each) for each in (argument, 0, 0, 0))
    return int(_libc.prctl(ctypes.c_int(option), *words))


def prctl_pointer(option: int, argument: int, pointer: object) -> int:
    return int(
        _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(argument), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0))
    )


def unshare(flags: int) -> None:
    check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode() if kind else None)
    check(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def enter_root(directory: str) -> None:
    """Make a mounted directory the root, and detach the old root."""
    os.chdir(directory)
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: unknown machine {os.uname().machine}")
    check(syscall(number, b".", b"."), "pivot_root")  # the old root lies above the new one until it is detached
    check(_libc.umount2(b".", ctypes.c_int(MNT_DETACH)), "detach the old root")
    os.chdir("/")
