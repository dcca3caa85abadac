"""Address filter: the addresses and ports to which a process may connect (bpf(2), cgroup v2, root only).

Landlock limits TCP by port and not by address. This is a BPF program on a control group of the worker's own, which the
kernel asks at every `connect`: it stays when the server ends, and needs no process beside the worker. Imported by the
launcher: as few imports as possible.
"""

import ctypes
import os
import struct
from collections.abc import Iterable, Sequence

from wa_orchestrator.runner.confinement import kernel

_BPF = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_SOCK_ADDR = 18
_CONNECT_4, _CONNECT_6 = 10, 11
#: Where the address and the port are in `struct bpf_sock_addr`, in network order.
_IP4, _IP6, _PORT = 4, 8, 24
_LOAD_WORD, _IF_NOT_EQUAL, _SET, _EXIT = 0x61, 0x56, 0xB7, 0x95

Address = tuple[bytes, int]
"""An address of 4 or 16 bytes, and a port."""


def is_known() -> bool:
    """Whether we know the number of the system call on this machine."""
    return os.uname().machine in _BPF


def parent_group(proc: str = "/proc/self") -> str | None:
    """Return the directory of our own control group, under which workers get theirs; None without cgroup v2."""
    with open(f"{proc}/mountinfo") as lines:
        mounts = [line.split() for line in lines if " - cgroup2 " in line]
    with open(f"{proc}/cgroup") as lines:
        own = next((line.rstrip("\n")[3:] for line in lines if line.startswith("0::")), None)
    if not mounts or own is None:
        return None
    root, place = mounts[0][3], mounts[0][4]
    inside = own.removeprefix(root.rstrip("/")) if own.startswith(root) else own
    path = place + inside.rstrip("/")
    return path if os.path.isdir(path) else None


def enter(group: str, addresses: Sequence[Address]) -> None:
    """Move this process into a new control group that connects to these addresses only. Before root is given up."""
    remove(group)
    os.mkdir(group, 0o700)
    place = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for kind, size, at in ((_CONNECT_4, 4, _IP4), (_CONNECT_6, 16, _IP6)):
            program = _load(_program([each for each in addresses if len(each[0]) == size], size, at), kind)
            try:
                _bpf(_PROG_ATTACH, struct.pack("<IIII", place, program, kind, 0), "attach the address filter")
            finally:
                os.close(program)
    finally:
        os.close(place)
    with open(f"{group}/cgroup.procs", "w") as members:
        members.write(str(os.getpid()))


def remove(group: str) -> None:
    """Remove a control group in which no process is left; nothing happens if there is none."""
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return


def _program(addresses: Iterable[Address], size: int, at: int) -> bytes:
    """Return a program that answers 1 (go on) for these addresses and 0 (EPERM) for all others."""
    words = size // 4
    code = [_instruction(_LOAD_WORD, 2 + word, 1, at + 4 * word) for word in range(words)]
    code.append(_instruction(_LOAD_WORD, 2 + words, 1, _PORT))
    for address, port in addresses:
        # Compared as they lie in memory: both sides are in network order.
        values = [*struct.unpack(f"<{words}i", address), int.from_bytes(port.to_bytes(2, "big"), "little")]
        for number, value in enumerate(values):
            code.append(_instruction(_IF_NOT_EQUAL, 2 + number, 0, len(values) - number + 1, value))
        code += [_instruction(_SET, 0, 0, 0, 1), _instruction(_EXIT)]
    return b"".join((*code, _instruction(_SET), _instruction(_EXIT)))


def _instruction(code: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, source << 4 | to, offset, value)


def _load(program: bytes, kind: int) -> int:
    code, licence = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"MIT")
    pointers = (ctypes.addressof(code), ctypes.addressof(licence))
    size = len(program) // 8
    request = struct.pack("<IIQQIIQII16sII", _SOCK_ADDR, size, *pointers, 0, 0, 0, 0, 0, b"wa_addresses", 0, kind)
    return _bpf(_PROG_LOAD, request, "load the address filter")


def _bpf(command: int, request: bytes, what: str) -> int:
    buffer = ctypes.create_string_buffer(request, len(request))
    number = _BPF[os.uname().machine]
    answer = kernel.syscall(number, ctypes.c_int(command), ctypes.byref(buffer), ctypes.c_uint(len(request)))
    return kernel.check(answer, what)
