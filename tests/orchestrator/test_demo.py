"""`up --simulate --fleet N`: from nothing to a linked fleet that talks; Ctrl-C ends everything; nothing is forgotten."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.orchestrator.stage import RUN, free_port, until
from wa_orchestrator.runner import proc


def begin(home: Path, fleet: int) -> "subprocess.Popen[bytes]":
    ports = ["--port", str(free_port()), "--gateway-port", str(free_port())]
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    with (home / "demo.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", RUN, "up", "--simulate", "--fleet", str(fleet), "--data-dir", str(home / "d"), *ports],
            cwd=home, env=environment, stdout=log, stderr=log,
        )  # fmt: skip


def said(home: Path, event: str) -> list[str]:
    return [line for line in (home / "demo.log").read_text().splitlines() if f'"event": "{event}"' in line]


def left_running(home: Path) -> list[int]:
    """Processes that know this directory."""
    mark = str(home).encode()
    found = []
    for pid in proc.pids():
        try:
            facts = (proc.PROC / str(pid) / "cmdline").read_bytes() + (proc.PROC / str(pid) / "environ").read_bytes()
        except OSError:
            continue
        if mark in facts and proc.start_time(pid) is not None and pid != os.getpid():
            found.append(pid)
    return found


def rehearse(home: Path, fleet: int, within_s: float) -> None:
    demo = begin(home, fleet)
    try:
        until(lambda: said(home, "fleet.linked") or demo.poll() is not None, within_s, "a linked fleet")
        assert demo.poll() is None, (home / "demo.log").read_text()[-3000:]
        url = re.search(r"ready: (http://\S+)", (home / "demo.log").read_text())
        assert url is not None
        secrets = json.loads((home / "d" / "secrets.json").read_text())
        headers = {"X-API-Key": secrets["api_key"]}
        world = httpx.get(f"{url[1]}/api/v1/simulator", headers=headers).json()
        until(lambda: len(httpx.get(f"{world['control']}/arrivals").json()) >= fleet, 60, "a message of each")
        counted = httpx.get(f"{world['control']}/proxies").json()
        assert (len(counted), sum(each["live"] for each in counted)) == (3, fleet)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 0
        assert left_running(home) == []
        scanned = len(said(home, "fleet.scanned"))
        demo = begin(home, fleet)
        until(lambda: said(home, "fleet.linked"), within_s, "the same fleet again")
        assert (scanned >= fleet, said(home, "fleet.scanned")) == (True, [])
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(30)


def test_the_demo_links_a_fleet_ends_with_ctrl_c_and_finds_everything_linked_again(tmp_path: Path) -> None:
    rehearse(tmp_path, fleet=2, within_s=90)


@pytest.mark.slow
def test_the_demo_links_eight_sessions_on_three_proxies_within_two_minutes(tmp_path: Path) -> None:
    rehearse(tmp_path, fleet=8, within_s=120)
