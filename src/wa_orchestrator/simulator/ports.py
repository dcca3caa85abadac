"""Ports that stay the same over restarts of the simulator; on loopback, unless it has a container of its own."""

from __future__ import annotations

import contextlib
import random
import socket
from dataclasses import dataclass

from wa_orchestrator.simulator.errors import SimulatorError

LOOPBACK = "127.0.0.1"
BACKLOG = 512
ATTEMPTS = 8
#: Below the ephemeral range: a client that connects to a closed port of that range may connect to itself.
PORTS = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the simulator listens, and the name by which others reach it there."""

    bind: str = LOOPBACK
    name: str = LOOPBACK


LOCAL = Address()


def claim(port: int, bind: str = LOOPBACK) -> socket.socket:
    """Bind a port without listening: it is reserved, and connections to it are refused."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((bind, port))
    except OSError as error:
        sock.close()
        raise SimulatorError("PORT_TAKEN", f"Cannot bind port {port}: {error.strerror}.") from error
    return sock


def listen(port: int = 0, bind: str = LOOPBACK) -> socket.socket:
    """Listen on a port; 0 picks a free one."""
    for _ in range(1 if port else ATTEMPTS):
        sock = claim(port or free_port(), bind)
        try:
            sock.listen(BACKLOG)
        except OSError:  # another simulator took the same free port at the same moment
            sock.close()
        else:
            return sock
    raise SimulatorError("PORT_TAKEN", f"Cannot listen on port {port or '(any)'}.")


def free_port() -> int:
    """Return a free port."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise SimulatorError("NO_PORT", f"No free port from {PORTS.start} to {PORTS.stop}.")
