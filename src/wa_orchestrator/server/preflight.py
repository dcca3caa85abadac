"""What must be true of the machine before anything is created: room to write, and free ports."""

import errno
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.settings import Settings

DIRECTORIES = ("data_dir", "sessions_dir")
PORTS = ("orch_port", "gateway_port")


def preflight(settings: Settings, ports: Sequence[str] = PORTS) -> None:
    """Raise BadSettings with one line for every directory that cannot be written and every port that is taken.

    Leaves no trace: a start that is refused here has created nothing.
    """
    if problems := [*_directories(settings), *_ports(settings, ports)]:
        raise BadSettings(*problems)


def require_redis(settings: Settings) -> None:
    """Refuse a part that runs by itself without a Redis that it can share with the others."""
    if settings.redis_url is None:
        raise BadSettings(
            "REDIS_URL: is missing; parts that run separately share one Redis (only `up` brings its own). "
            "Example: REDIS_URL=redis://localhost:6379/0"
        )


def _directories(settings: Settings) -> Iterator[str]:
    told: list[Path] = []
    for name in DIRECTORIES:
        directory: Path = getattr(settings, name)
        problem = unwritable(directory)
        if problem and not any(directory.is_relative_to(outer) for outer in told):  # one cause, one line
            told.append(directory)
            yield f"{name.upper()}: {directory} {problem}. Example: {name.upper()}=/var/lib/wa-orchestrator"


def unwritable(directory: Path) -> str | None:
    """Say why a directory cannot be written or made, or None. Tried, not guessed: root passes every look at bits."""
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    if not existing.is_dir():
        return f"cannot be made, because {existing} is a file" if existing != directory else "is a file"
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return f"cannot be written ({error.strerror})"


def _ports(settings: Settings, ports: Sequence[str]) -> Iterator[str]:
    for name in ports:
        port: int = getattr(settings, name)
        if problem := unavailable(settings.bind_host, port):
            yield f"{name.upper()}: port {port} on {settings.bind_host} {problem}. Example: {name.upper()}={port + 10}"


def unavailable(host: str, port: int) -> str | None:
    """Say why one cannot listen on a port, or None."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: TIME_WAIT is no obstacle
            probe.bind(address)
            return None
    except OSError as error:
        return (
            "is in use, perhaps by this product itself"
            if error.errno == errno.EADDRINUSE
            else f"cannot be had ({error.strerror})"
        )
