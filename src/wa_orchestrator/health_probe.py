"""Health checks of containers: `python -m wa_orchestrator.health_probe http 3001`. Exits with 0 if the part answers.

Sockets alone: it runs every few seconds in every container, and must not cost more than what it checks.
"""

import os
import socket
import sys

_ANSWER_S = 4.0


def main(kind: str, where: str, path: str = "/health") -> int:
    """Return 0 if the part answers: `http <port> [<path>]`, `redis <port>`, or `socket <path>`."""
    is_path = kind == "socket"
    with socket.socket(socket.AF_UNIX if is_path else socket.AF_INET) as connection:
        connection.settimeout(_ANSWER_S)
        connection.connect(where if is_path else ("127.0.0.1", int(where)))
        if is_path:
            return 0
        http = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        connection.sendall(http if kind == "http" else b"PING\r\n")
        answer = connection.recv(64)
    # A Redis that still loads its file answers with an error; one that wants the password first is ready.
    return 0 if answer.startswith((b"HTTP/1.1 200", b"+PONG", b"-NOAUTH")) else 1


if __name__ == "__main__":
    try:
        status: int | str = main(*sys.argv[1:4])
    except OSError as error:
        status = f"{' '.join(sys.argv[1:])}: {os.strerror(error.errno) if error.errno else error}"
    sys.exit(status)
