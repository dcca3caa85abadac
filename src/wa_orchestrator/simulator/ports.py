"""Loopback ports that stay the same for the life of a simulated world, and over its restarts."""

from __future__ import annotations

import contextlib
import random
import socket

from wa_orchestrator.simulator.errors import SimulatorError

LOOPBACK = "127.0.0.1"
BACKLOG = 512
ATTEMPTS = 8
#: Below what systems hand out to outgoing connections: a client that dials a closed port of that range can meet itself.
PORTS = range(20_000, 32_000)


def claim(port: int) -> socket.socket:
    """Bind a loopback port without listening on it: nobody else gets it, and who dials it is refused."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((LOOPBACK, port))
    except OSError as error:
        sock.close()
        raise SimulatorError("PORT_TAKEN", f"Port {port} is in use by another program ({error.strerror}).") from error
    return sock


def listen(port: int = 0) -> socket.socket:
    """Listen on a loopback port; for 0 on any free one."""
    for _ in range(1 if port else ATTEMPTS):
        sock = claim(port or free_port())
        try:
            sock.listen(BACKLOG)
        except OSError:  # another world took the same free port a moment ago
            sock.close()
        else:
            return sock
    raise SimulatorError("PORT_TAKEN", f"Port {port or 'of any number'} could not be taken for listening.")


def free_port() -> int:
    """Find a port that nobody has."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise SimulatorError("NO_PORT", f"No free port from {PORTS.start} to {PORTS.stop}.")
