"""A seccomp filter for workers: system calls that Node never needs, and that reach beyond what Landlock covers.

Landlock knows files and TCP. Left to this filter are: other processes (signals, ptrace, limits, priorities), new
processes, sockets that are not TCP (Unix, UDP, netlink, raw; also MPTCP, which Landlock does not see), changes of files
by path that Landlock does not check (modes, owners, times), and parts of the kernel that are attacked most.
"""

import ctypes
import os
import struct
from collections.abc import Iterator

from wa_orchestrator.runner.confinement import kernel

#: AUDIT_ARCH_*, by the machine's name in `os.uname()`; the index of its numbers below.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
#: Refused with EPERM, by name: the numbers on x86-64 and on ARM64; -1 where there is no such call.
_FORBIDDEN = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "migrate_pages": (256, 238), "move_pages": (279, 239), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "fork": (57, -1), "vfork": (58, -1),
    # memory and queues shared with other processes
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # files by path; with a handle, which Landlock has allowed to be opened, they may be changed
    "chmod": (90, -1), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1), "lchown": (94, -1),
    "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "truncate": (76, 45), "open_by_handle_at": (304, 265),
    "inotify_init": (253, -1), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    # the machine
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "personality": (135, 92),
}  # fmt: skip
#: Said not to exist: the C library then does it in another way, or callers in none. io_uring would pass by this filter,
#: and the flags of clone3 cannot be seen by it.
_ABSENT = {
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "clone3": (435, 435),
}  # fmt: skip
#: Allowed for the process itself: the first argument is 0 or its own number.
_ITSELF = {
    "kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
}  # fmt: skip
_CLONE, _SOCKET, _SOCKETPAIR = (56, 220), (41, 198), (53, 199)
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_STREAM, _DATAGRAM, _KIND = 1, 2, 0xF
_TCP, _UDP = 6, 17

# Classic BPF, and what it reads: struct seccomp_data.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_SET_SECCOMP, _FILTER = 22, 2

Instruction = tuple[int, int, int, int]


def is_known(machine: str | None = None) -> bool:
    """Whether there is a filter for this kind of machine."""
    return (machine or os.uname().machine) in _MACHINES


def program(machine: str, pid: int, *, datagrams: bool) -> list[Instruction]:
    """Return the filter for a process. `datagrams` allows UDP, which the look-up of names needs."""
    arch, column = _MACHINES[machine]
    built: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        built += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    for table, errno in ((_FORBIDDEN, _EPERM), (_ABSENT, _ENOSYS)):
        for numbers in table.values():
            if numbers[column] >= 0:
                built += _when(numbers[column], [(_RETURN, 0, 0, _ERRNO | errno)])
    for numbers in _ITSELF.values():
        own = [*_argument(0), (_EQUAL, 2, 0, 0), (_EQUAL, 1, 0, pid), *_refuse(_EPERM), *_allow()]
        built += _when(numbers[column], own)
    built += _when(_CLONE[column], [*_argument(0), (_ANY_BIT, 1, 0, _CLONE_THREAD), *_refuse(_EPERM), *_allow()])
    built += _when(_SOCKET[column], list(_socket(datagrams=datagrams)))
    stream = [*_argument(1), (_AND, 0, 0, _KIND), (_EQUAL, 1, 0, _STREAM), *_refuse(_EACCES), *_allow()]
    built += _when(_SOCKETPAIR[column], stream)  # a pair of datagram sockets can send to any other
    return [*built, *_allow()]


def _when(number: int, block: list[Instruction]) -> list[Instruction]:
    """Run a block for one system call. The block ends in a return, so that the number stays loaded for the others."""
    return [(_EQUAL, 0, len(block), number), *block]


def _argument(index: int) -> list[Instruction]:
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index)]


def _refuse(errno: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, _ERRNO | errno)]


def _allow() -> list[Instruction]:
    return [(_RETURN, 0, 0, _ALLOW)]


def _socket(*, datagrams: bool) -> Iterator[Instruction]:
    """Allow IPv4 and IPv6, TCP, and UDP if asked."""
    yield from _argument(0)
    yield (_EQUAL, 2, 0, 2)
    yield (_EQUAL, 1, 0, 10)
    yield from _refuse(_EACCES)
    for kind, protocol in ((_STREAM, _TCP), (_DATAGRAM, _UDP))[: 2 if datagrams else 1]:
        yield from _argument(1)
        yield (_AND, 0, 0, _KIND)
        yield (_EQUAL, 0, 5, kind)
        yield from _argument(2)
        yield (_EQUAL, 1, 0, 0)
        yield (_EQUAL, 0, 1, protocol)
        yield from _allow()
        yield from _refuse(_EACCES)
    yield from _refuse(_EACCES)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def apply(pid: int, *, datagrams: bool) -> None:
    """Put the filter into force for this process, for ever. Needs no_new_privs."""
    built = program(os.uname().machine, pid, datagrams=datagrams)
    raw = b"".join(struct.pack("=HBBI", *each) for each in built)
    loaded = _Program(len(built), raw)
    kernel.check(kernel.prctl_pointer(_SET_SECCOMP, _FILTER, ctypes.byref(loaded)), "seccomp")
