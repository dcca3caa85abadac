"""Starts a program through the launcher, with the layers of this machine and the reach of one worker."""

import contextlib
import hashlib
import ipaddress
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.runner.confinement import address_filter
from wa_orchestrator.runner.confinement.layers import Layers
from wa_orchestrator.runner.contract import StartFailed, WorkerSpec

LAUNCHER = Path(__file__).with_name("launcher.py")
#: Without site-packages and the user's own settings: a third of Python's start, and nothing to be planted.
_PYTHON = (sys.executable, "-I", "-S", str(LAUNCHER))
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/etc/ld.so.cache")
_NAME_LOOKUP = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf")
#: Node ends when this is there and cannot be read.
_OPENSSL = ("/etc/ssl/openssl.cnf", "/usr/local/ssl/openssl.cnf")
_DEVICES = ("/dev/null", "/dev/urandom")
_DNS_PORT = 53
#: A worker has about 30 open. One that was taken over must not take the connections of all others: they come from one
#: address here, so nothing else tells them apart before they have said who they are.
OPEN_FILES = 256
_LARGEST_FILE_BYTES = 1 << 30
_THREADS = 64
#: Core files would contain keys. Memory is limited by a Node flag: Node reserves more address space than it uses.
_LIMITS = (f"core={0}", f"nofile={OPEN_FILES}", f"fsize={_LARGEST_FILE_BYTES}")
_TRIAL_S = 20.0
_GROUP = "wa-worker-"


@dataclass(frozen=True, slots=True)
class Reach:
    """What one worker may use."""

    read: Sequence[str] = ()
    write: Sequence[str] = ()
    ports: Sequence[int] | None = None
    """TCP ports to connect to; None for any."""
    looks_up_names: bool = True
    addresses: Sequence[tuple[str, int]] | None = None
    """Addresses and ports to connect to; None for any address, because names may lead to any."""


def reach_of(spec: WorkerSpec, read: Iterable[Path], write: Iterable[Path]) -> Reach:
    """Return the reach of a worker: its files, and the ports of its proxy and of the server."""
    files = [str(each) for each in read]
    if authorities := spec.environment.get("NODE_EXTRA_CA_CERTS"):
        files.append(authorities)
    writable = [str(each) for each in write]
    if "PROXY_URL" not in spec.secrets:  # direct: WhatsApp's own addresses and ports
        return Reach(files, writable)
    proxy = proxy_url.parse(spec.secrets["PROXY_URL"])
    addresses = {(proxy.host, proxy.port)}
    for name in ("WEBHOOK_URL", "OUTBOX_URL"):
        if name in spec.environment:
            parts = urlsplit(spec.environment[name])
            addresses.add((parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)))
    named = not all(_is_address(host) for host, _ in addresses)
    ports = {port for _, port in addresses} | ({_DNS_PORT} if named else set())
    return Reach(files, writable, sorted(ports), named, None if named else sorted(addresses))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def group_of(layers: Layers, root: Path) -> str | None:
    """Return the control group of the worker with this root; None where workers have none.

    Not by session or user: another installation on the machine may have the same.
    """
    name = hashlib.sha256(str(root).encode()).hexdigest()[:20]
    return f"{layers.control_group}/{_GROUP}{name}" if layers.control_group else None


def launch_command(
    layers: Layers, command: Sequence[str], reach: Reach, *, root: Path, user: int | None
) -> tuple[str, ...]:
    """Return the command that confines itself and becomes `command`. `root` is an empty directory for a mount view."""
    words = list(_LIMITS)
    if user is not None:
        words += [f"root={root}", f"user={user}", f"nproc={_THREADS}"]
    group = group_of(layers, root)
    if group is not None and reach.addresses is not None:
        words.append(f"group={group}")
        words += [f"address={each.packed.hex()}:{port}" for host, port in reach.addresses for each in _spelled(host)]
    if layers.landlock:
        words.append("landlock=1")
        words += [f"port={port}" for port in reach.ports or ()]
    if layers.syscall_filter:
        words.append("filter=" + ("tcp+udp" if reach.looks_up_names else "tcp"))
    program = os.path.realpath(command[0])
    words += [f"run={path}" for path in (program, *_interpreters())]
    words += [f"read={path}" for path in (*_LIBRARIES, *_OPENSSL, *_DEVICES, *reach.read)]
    if reach.looks_up_names:
        words += [f"read={path}" for path in _NAME_LOOKUP]
    words += [f"write={path}" for path in reach.write]
    return (*_PYTHON, *words, "--", program, *command[1:])


def _spelled(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses of a host that needs no look-up."""
    names = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    return [ipaddress.ip_address(each) for each in names]


def _interpreters() -> list[str]:
    """Return the programs that load programs: the kernel executes them together with Node."""
    found = {os.path.realpath(path) for base in ("/lib", "/lib64") for path in Path(base).glob("ld-*")}
    found |= {os.path.realpath(path) for path in Path("/lib").glob("*/ld-linux*")}
    return sorted(found)


def spawn(
    command: Sequence[str], environment: Mapping[str, str], place: Path, output: int
) -> "subprocess.Popen[bytes]":
    """Start a launch command; when this returns the program itself runs, confined. Raises StartFailed."""
    reader, writer = os.pipe()
    at = command.index(str(LAUNCHER)) + 1
    try:
        child = subprocess.Popen(
            (*command[:at], f"status={writer}", *command[at:]),
            cwd=place,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(writer,),
        )
    except OSError as error:
        os.close(reader)
        raise StartFailed(f"Cannot run {command[0]}: {error.strerror}.") from error
    finally:
        os.close(writer)
    with os.fdopen(reader, "rb") as status:
        problem = status.read().decode("utf-8", "replace")
    if problem:
        child.wait()
        raise StartFailed(f"The worker could not be confined or run: {problem}.")
    return child


def remove_group(group: str) -> None:
    with contextlib.suppress(OSError):  # a process is left in it, or it is somebody else's: the next start tries again
        address_filter.remove(group)


def remove_left_groups(layers: Layers, now_s: float) -> None:
    """Remove control groups whose workers ended while no server ran. A busy one stays.

    A new one is empty for a moment: somebody else's launcher may be about to enter it.
    """
    for place in Path(layers.control_group).glob(f"{_GROUP}*") if layers.control_group else ():
        with contextlib.suppress(OSError):
            if now_s - place.stat().st_mtime > _TRIAL_S:
                address_filter.remove(str(place))


def attempt(layers: Layers, command: Sequence[str], user: int) -> str | None:
    """Run `command` once with these layers; return why it failed, or None."""
    with tempfile.TemporaryDirectory(prefix="wa-confinement-") as name, contextlib.ExitStack() as stack:
        output = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, output)
        words = launch_command(
            layers,
            command,
            Reach(ports=(1,), addresses=(("127.0.0.1", 1),)),
            root=Path(name),
            user=user if layers.own_users else None,
        )
        if (group := group_of(layers, Path(name))) is not None:
            stack.callback(remove_group, group)
        try:
            child = spawn(words, {"PATH": os.environ.get("PATH", "")}, Path(name), output)
            code = child.wait(_TRIAL_S)
        except (StartFailed, subprocess.TimeoutExpired) as error:
            return str(error)
    return f"{command[0]} ended with {code}" if code else None
