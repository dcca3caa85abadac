"""Another machine on this machine's network, as a container with an ordinary network would reach it."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.processes import Program
from tests.runner.drivers import free_subnet

LISTEN = """
import socket
door = socket.create_server(("", 1080))
print("listening", flush=True)
while True:
    door.accept()[0].close()
"""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def neighbour(home: Path) -> Iterator[str]:
    """The address of a machine that listens on port 1080: a network namespace behind a cable of its own."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        reason = "a network namespace cannot be made here: it needs root and the ip command"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    name = uuid.uuid4().hex[:8]
    here, there, space = f"wah{name}", f"wat{name}", f"wa-{name}"
    _, ours, theirs, *_ = ip_network(free_subnet())
    _ip("netns", "add", space)
    try:
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", space)
        _ip("addr", "add", f"{ours}/24", "dev", here)
        _ip("link", "set", here, "up")
        _ip("-n", space, "addr", "add", f"{theirs}/24", "dev", there)
        _ip("-n", space, "link", "set", there, "up")
        _ip("-n", space, "route", "add", "default", "via", str(ours))
        listener = Program(("ip", "netns", "exec", space, sys.executable, "-c", LISTEN), log=home / "neighbour.log")
        try:
            listener.said("listening")
            yield str(theirs)
        finally:
            listener.end()
    finally:
        _ip("netns", "del", space)  # and with it both ends of the cable
