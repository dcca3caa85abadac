"""Landlock: the files and TCP ports that a process may use (docs.kernel.org/userspace-api/landlock.html)."""

import ctypes
import os
import stat
from collections.abc import Iterable

from wa_orchestrator.runner.confinement import kernel

_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
#: All accesses to files that a version of the interface knows, by the first version.
_KNOWN_FS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_BIND_TCP, _CONNECT_TCP = 1, 2
#: No abstract Unix socket and no signal to a process outside.
_SCOPED = 3
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

RUN = EXECUTE | READ_FILE
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
#: Versions that know ports, and processes outside.
PORTS_SINCE, SCOPES_SINCE = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _NetPort(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


def version() -> int:
    """Return the version of the kernel's interface; 0 without Landlock."""
    return max(0, kernel.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))


def restrict(files: Iterable[tuple[str, int]], ports: Iterable[int] | None) -> None:
    """Forbid this process everything but the files, each with its accesses, and TCP connections to the ports.

    Paths that do not exist are left out. Without ports (None) every connection is allowed. What the kernel's version
    does not know is not forbidden. Needs no_new_privs.
    """
    known = version()
    fs = _KNOWN_FS[max(each for each in _KNOWN_FS if each <= known)]
    net = 0 if known < PORTS_SINCE else _BIND_TCP if ports is None else _BIND_TCP | _CONNECT_TCP
    ruleset = _Ruleset(fs, net, _SCOPED if known >= SCOPES_SINCE else 0)
    size = 24 if known >= SCOPES_SINCE else 16 if known >= PORTS_SINCE else 8
    handle = kernel.check(
        kernel.syscall(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0)), "landlock"
    )
    for path, access in files:
        _allow_path(handle, path, access & fs)
    for port in ports or () if net & _CONNECT_TCP else ():
        rule = _NetPort(_CONNECT_TCP, port)
        kernel.check(_add(handle, _NET_PORT, rule), f"landlock port {port}")
    kernel.check(kernel.syscall(_RESTRICT_SELF, ctypes.c_int(handle), ctypes.c_uint32(0)), "landlock")
    os.close(handle)


def _allow_path(handle: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _FOR_FILES
        kernel.check(_add(handle, _PATH_BENEATH, _PathBeneath(access, place)), f"landlock {path}")
    finally:
        os.close(place)


def _add(handle: int, kind: int, rule: ctypes.Structure) -> int:
    return kernel.syscall(_ADD_RULE, ctypes.c_int(handle), ctypes.c_int(kind), ctypes.byref(rule), ctypes.c_uint32(0))
