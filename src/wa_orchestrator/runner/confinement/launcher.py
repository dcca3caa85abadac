"""Confines itself and becomes the worker: `python -I -S launcher.py <option>… -- <program> <argument>…`.

A program of its own, because each step must run in the new process and before Node: in the server they would have to
run between fork and exec, where a process with threads may call hardly anything. It ends with exec, so none of its
memory is left. It does everything it is told or nothing: `layers` finds out beforehand what this machine can do.

Options are `name=value`; each that is listed with `…` may be repeated:

    status=<fd>     a pipe on which a failure is written; it is closed by exec, so that its end is success
    root=<dir>      an empty directory for a mount view, with exactly the files below
    user=<id>       user and group
    group=<dir>     a control group to be made, which connects to the addresses below only
    run=<path>…     may be read and executed
    read=<path>…    may be read
    write=<path>…   may be read and written
    landlock=1      enforce the files above, and the ports
    port=<number>…  TCP ports to which it may connect; none of this option: any
    address=<hex>:<port>…  an address to which it may connect; needs a group
    filter=<kind>   refuse system calls: `tcp`, or `tcp+udp` for those who look up names
    <limit>=<n>     core, nofile, fsize, nproc
"""

import os
import resource
import sys
from collections.abc import Sequence

# Started as a file, without site-packages: the package is found where this file lies.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)).rsplit(os.sep, 3)[0])

from wa_orchestrator.runner.confinement import address_filter, kernel, landlock, mount_view, syscall_filter

_LIMITS = {
    "core": resource.RLIMIT_CORE,
    "nofile": resource.RLIMIT_NOFILE,
    "fsize": resource.RLIMIT_FSIZE,
    "nproc": resource.RLIMIT_NPROC,
}


def confine(options: dict[str, list[str]]) -> None:
    """Apply the options to this process, each before the step that would forbid it."""
    for name, which in _LIMITS.items():
        if name in options:
            most = int(options[name][0])
            resource.setrlimit(which, (most, most))
    if "group" in options:
        _limit_addresses(options["group"][0], options.get("address", []))
    run, read, write = (options.get(name, []) for name in ("run", "read", "write"))
    if "root" in options:
        mount_view.enter(options["root"][0], [*run, *read], write)
    if os.geteuid() == 0:
        kernel.drop_capabilities()
    if "user" in options:
        user = int(options["user"][0])
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    kernel.set_no_new_privs()
    if "landlock" in options:
        _restrict(run, read, write, options)
    if "filter" in options:
        syscall_filter.apply(os.getpid(), datagrams=options["filter"][0] == "tcp+udp")


def _limit_addresses(group: str, addresses: list[str]) -> None:
    parts = (each.partition(":") for each in addresses)
    address_filter.enter(group, [(bytes.fromhex(host), int(port)) for host, _, port in parts])


def _restrict(run: list[str], read: list[str], write: list[str], options: dict[str, list[str]]) -> None:
    # A rule holds for the directory as it was when the rule was made. Kept open, the kernel does not make it anew.
    itself = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY)
    os.set_inheritable(itself, True)
    files = [
        *((path, landlock.RUN) for path in run),
        *((path, landlock.READ) for path in read),
        *((path, landlock.WRITE) for path in write),
        ("/proc/self", landlock.READ),
        ("/dev/null", landlock.READ_FILE | landlock.WRITE_FILE),
    ]
    ports = [int(port) for port in options["port"]] if "port" in options else None
    landlock.restrict(files, ports)


def main(words: Sequence[str]) -> None:
    end = words.index("--")
    command = list(words[end + 1 :])
    options: dict[str, list[str]] = {}
    for word in words[:end]:
        name, _, value = word.partition("=")
        options.setdefault(name, []).append(value)
    status = int(options["status"][0])
    os.set_inheritable(status, False)
    try:
        confine(options)
        os.execv(command[0], command)
    except BaseException as error:
        os.write(status, str(error).encode() or type(error).__name__.encode())
        os._exit(126)


if __name__ == "__main__":
    main(sys.argv[1:])
