"""Checks of the machine before anything is created: writable directories and free ports."""

import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.settings import Settings

DIRECTORIES = ("data_dir", "sessions_dir")
PORTS = ("orch_port", "gateway_port", "worker_port")


def preflight(settings: Settings, ports: Sequence[str] = PORTS, directories: Sequence[str] = DIRECTORIES) -> None:
    """Raise BadSettings with one line for every directory that cannot be written and every port that is in use.

    Leaves no trace: a start that is refused here has created nothing.
    """
    if problems := [*directory_problems(settings, directories), *port_problems(settings, ports)]:
        raise BadSettings(*problems)


def require_redis(settings: Settings) -> None:
    """Refuse to run a single service without a Redis that it can share with the others."""
    if settings.redis_url is None:
        raise BadSettings(
            "REDIS_URL: is required; services that run separately share one Redis (only `up` has an embedded one). "
            "Example: REDIS_URL=redis://localhost:6379/0"
        )


def directory_problems(settings: Settings, directories: Sequence[str] = DIRECTORIES) -> Iterator[str]:
    """Return one line for every directory that cannot be written; a directory within such a one is not repeated."""
    reported: list[Path] = []
    for name in directories:
        directory: Path = getattr(settings, name)
        problem = unwritable(directory)
        if problem and not any(directory.is_relative_to(outer) for outer in reported):
            reported.append(directory)
            yield f"{name.upper()}: {directory} {problem}. Example: {name.upper()}=/var/lib/wa-orchestrator"


def unwritable(directory: Path) -> str | None:
    """Return why a directory cannot be written or created, or None. Tried, because mode bits do not bind root."""
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    if not existing.is_dir():
        return f"cannot be created: {existing} is a file" if existing != directory else "is a file"
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return f"cannot be written: {error.strerror}"


def port_problems(settings: Settings, ports: Sequence[str] = PORTS) -> Iterator[str]:
    """Return one line for every port that cannot be bound."""
    for name in ports:
        port: int = getattr(settings, name)
        host = settings.worker_bind_host if name == "worker_port" else settings.bind_host
        try:
            bind(host, port).close()
        except OSError as error:
            yield port_problem(name.upper(), host, port, error)


def port_problem(variable: str, host: str, port: int, error: OSError) -> str:
    """Return why a port cannot be bound, in one line that begins with the variable."""
    return f"{variable}: cannot bind {host}:{port}: {(error.strerror or '').lower()}. Example: {variable}={port + 10}"


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to a port; 0 picks a free one."""
    family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT must not prevent a restart
    try:
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
