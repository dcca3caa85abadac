"""Finds out which layers of confinement this machine has, by trying them once, and which it lacks and why."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from wa_orchestrator.runner.confinement import address_filter, landlock, syscall_filter

#: What a server needs besides the number 0 to run workers as other users: CHOWN, DAC_OVERRIDE, KILL, SETGID, SETUID,
#: SYS_PTRACE (to find them again by their environment) and SYS_ADMIN (mount views). By bit.
_CAPABILITIES = {0: "CHOWN", 1: "DAC_OVERRIDE", 5: "KILL", 6: "SETGID", 7: "SETUID", 19: "SYS_PTRACE", 21: "SYS_ADMIN"}


class Gap(StrEnum):
    """A layer that is missing here. The sentences are in the texts."""

    NOT_ROOT = "NOT_ROOT"
    """Workers run as the server's user."""
    NO_OWN_USERS = "NO_OWN_USERS"
    """The server is root, and still cannot give each worker a user of its own."""
    NO_LANDLOCK = "NO_LANDLOCK"
    """The kernel does not restrict files."""
    NO_PORT_LIMITS = "NO_PORT_LIMITS"
    """The kernel restricts files, and not yet connections."""
    NO_ADDRESS_LIMITS = "NO_ADDRESS_LIMITS"
    """The server is root, and still cannot limit connections by address (cgroup v2 and BPF)."""
    NO_SYSCALL_FILTER = "NO_SYSCALL_FILTER"
    """There is no filter of system calls for this kind of machine."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers in force, and why others are not."""

    own_users: bool = False
    """A user and a mount view of its own per worker."""
    landlock: int = 0
    """Version of the kernel's interface; 0 for none."""
    syscall_filter: bool = False
    control_group: str = ""
    """The directory in which each worker gets a control group that limits its connections by address; '' for none."""
    gaps: tuple[Gap, ...] = ()
    details: tuple[str, ...] = ()
    """What the kernel answered where a layer was refused, for the log."""

    @property
    def separates_files(self) -> bool:
        """Whether a worker cannot read what belongs to others."""
        return self.own_users or self.landlock > 0


Try = Callable[[Layers], str | None]
"""Starts a program with the layers; returns why it could not, or None."""


def find(attempt: Try, users: range) -> Layers:
    """Return the layers that work here: all that the machine seems to have, less those with which nothing starts."""
    layers = _promised(users)
    while (refusal := attempt(layers)) is not None:
        if layers.control_group:
            layers = _without(layers, Gap.NO_ADDRESS_LIMITS, refusal, control_group="")
        elif layers.own_users:
            layers = _without(layers, Gap.NO_OWN_USERS, refusal, own_users=False)
        elif layers.syscall_filter:
            layers = _without(layers, Gap.NO_SYSCALL_FILTER, refusal, syscall_filter=False)
        elif layers.landlock:
            layers = _without(layers, Gap.NO_LANDLOCK, refusal, landlock=0)
        else:
            return layers  # it is not the confinement that fails: the start of a worker will say what is wrong
    return layers


def _promised(users: range) -> Layers:
    version, known = landlock.version(), syscall_filter.is_known()
    gaps, details = [], []
    if os.geteuid() != 0:
        gaps.append(Gap.NOT_ROOT)
    elif problem := _user_problem(users):
        gaps.append(Gap.NO_OWN_USERS)
        details.append(problem)
    own_users = not gaps
    if not version:
        gaps.append(Gap.NO_LANDLOCK)
    elif version < landlock.PORTS_SINCE:
        gaps.append(Gap.NO_PORT_LIMITS)
    if not known:
        gaps.append(Gap.NO_SYSCALL_FILTER)
    group = address_filter.parent_group() or "" if own_users and address_filter.is_known() else ""
    if own_users and not group:
        gaps.append(Gap.NO_ADDRESS_LIMITS)
    return Layers(own_users, version, known, group, tuple(gaps), tuple(details))


def _user_problem(users: range) -> str | None:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    effective = int(status["CapEff"], 16)
    if missing := [name for bit, name in _CAPABILITIES.items() if not effective >> bit & 1]:
        return f"root without the capabilities {', '.join(missing)}"
    for name in ("uid_map", "gid_map"):
        spans = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        inside = any(int(first) <= users[0] and users[-1] < int(first) + int(count) for first, _, count in spans)
        if not inside:
            return f"WORKER_USERS {users[0]}-{users[-1]} is outside of /proc/self/{name}"
    return None


def _without(layers: Layers, gap: Gap, refusal: str, **changes: bool | int | str) -> Layers:
    gaps = tuple(dict.fromkeys((*layers.gaps, gap)))
    return replace(layers, gaps=gaps, details=(*layers.details, refusal), **changes)  # type: ignore[arg-type]
