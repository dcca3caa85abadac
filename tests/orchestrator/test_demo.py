"""`up --simulate --fleet N`: from nothing to a linked fleet that talks; Ctrl-C ends everything; nothing is forgotten."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import PRODUCT, Program, bare_environment
from tests.waiting import PATIENCE_S, promised, until_blocking
from wa_orchestrator.runner import process_identity


def begin(home: Path, fleet: int) -> Program:
    ports = ("--port", "0", "--gateway-port", "0")
    command = (*PRODUCT, "up", "--simulate", "--fleet", str(fleet), "--data-dir", str(home / "d"), *ports)
    return Program(command, cwd=home, env=bare_environment(), log=home / "demo.log")


def scans(demo: Program) -> int:
    return sum('"event": "fleet.scanned"' in line for line in demo.lines)


def left_running(home: Path) -> list[int]:
    """Processes that know this directory."""
    mark = str(home).encode()
    found = []
    for pid in process_identity.pids():
        try:
            facts = (process_identity.PROC / str(pid) / "cmdline").read_bytes() + (
                process_identity.PROC / str(pid) / "environ"
            ).read_bytes()
        except OSError:
            continue
        if mark in facts and process_identity.start_time(pid) is not None and pid != os.getpid():
            found.append(pid)
    return found


def answer(url: str, **options: Any) -> Any:
    return httpx.get(url, timeout=PATIENCE_S, **options).json()


def rehearse(home: Path, fleet: int, within_s: float) -> None:
    demo = begin(home, fleet)
    try:
        demo.said('"event": "fleet.linked"', within_s)
        url = demo.said(r"ready: (http://\S+)")[1]
        secrets = json.loads((home / "d" / "secrets.json").read_text())
        headers = {"X-API-Key": secrets["api_key"]}
        world = answer(f"{url}/api/v1/simulator", headers=headers)
        until_blocking(lambda: len(answer(f"{world['control']}/arrivals")) >= fleet, "a message of each")
        demo.said(f"{fleet} of {fleet} simulated phones are linked, and {fleet} of their messages were read")
        # A busy machine may make it warn of what is slow; nothing may break, and no reader may lose the stream.
        worries = [
            line for line in demo.lines if re.search(r'"level": "error"|"event": "event_tail.disconnected"', line)
        ]
        assert worries == []
        listed = answer(f"{url}/api/sessions", headers=headers)["sessions"]
        assert len({session["label"] for session in listed}) == fleet
        counted = answer(f"{world['control']}/proxies")
        assert (len(counted), sum(each["live"] for each in counted)) == (3, fleet)
        assert demo.end(signal.SIGINT) == 0
        assert left_running(home) == []
        scanned = scans(demo)
        demo = begin(home, fleet)
        demo.said('"event": "fleet.linked"', within_s)
        assert (scanned >= fleet, scans(demo)) == (True, 0)
    finally:
        demo.end(signal.SIGINT)


def test_the_demo_links_a_fleet_ends_with_ctrl_c_and_finds_everything_linked_again(tmp_path: Path) -> None:
    rehearse(tmp_path, fleet=2, within_s=promised(90))


@pytest.mark.slow
def test_the_demo_links_eight_sessions_on_three_proxies_within_two_minutes(tmp_path: Path) -> None:
    rehearse(tmp_path, fleet=8, within_s=promised(120))
