"""Signals: what stops the server, and what it leaves behind."""

import signal
from pathlib import Path

from tests.processes import PRODUCT, Program, bare_environment
from wa_orchestrator.runner import process_identity


def test_a_closed_terminal_stops_the_server_and_everything_it_started(tmp_path: Path) -> None:
    command = (*PRODUCT, "up", "--data-dir", str(tmp_path / "d"), "--port", "0", "--gateway-port", "0")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # programs inherit it; whoever ran the tests with nohup ignores it
    server = Program(command, log=tmp_path / "log", env=bare_environment(), cwd=tmp_path)
    server.said("There are no proxies yet. Add one at http://")
    server.said("Ctrl-C stops")
    assert server.end(signal.SIGHUP) == 0
    mark = str(tmp_path / "d").encode()
    left = [pid for pid in process_identity.pids() if mark in _command_line(pid)]
    assert left == []


def _command_line(pid: int) -> bytes:
    try:
        return (process_identity.PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""
