"""The unit of systemd: what must stand in it, and how exposed systemd finds it."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.wheels import ROOT

UNIT = ROOT / "deploy" / "wa-orchestrator.service"
#: 1.5 of 10 when it was written; other versions of systemd weigh a little differently.
MOST_EXPOSED = 2.3


def section(name: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser[name]


def service() -> configparser.SectionProxy:
    return section("Service")


def test_a_reload_keeps_workers_and_a_stop_ends_them() -> None:
    unit = service()
    # SIGTERM leaves workers running, SIGINT ends them; only the server gets either.
    kept = {
        "KillMode": "process", "ExecReload": "/bin/kill -TERM $MAINPID", "Restart": "always", "KillSignal": "SIGINT",
    }  # fmt: skip
    assert {name: unit[name] for name in kept} == kept
    # In a user namespace of its own the next server cannot look at the workers of this one, and starts them anew.
    assert "PrivateUsers" not in unit


def test_a_worker_that_the_kernel_kills_for_memory_ends_no_other() -> None:
    assert service()["OOMPolicy"] == "continue", "the default, stop, ends the whole unit with it"


def test_a_thousand_workers_have_room_and_no_number_of_failed_starts_is_the_last() -> None:
    threads_of_a_worker = 5
    assert int(service()["TasksMax"]) > 2 * 1000 * threads_of_a_worker
    assert section("Unit")["StartLimitIntervalSec"] == "0", (
        "the default ends the attempts after five within ten seconds"
    )


def test_the_logs_have_a_limit() -> None:
    limits = (ROOT / "deploy" / f"journald@{service()['LogNamespace']}.conf").read_text()
    assert "SystemMaxUse=" in limits


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed here")
    unit = tmp_path / UNIT.name
    text = UNIT.read_text("utf-8")
    started = service()["ExecStart"].split()[0]
    unit.write_text(text.replace(started, "/bin/true"), "utf-8")  # systemd looks for the program, too
    told = subprocess.run(
        ("systemd-analyze", "verify", "--man=no", str(unit)), capture_output=True, text=True, timeout=60, check=False
    )
    about = [line for line in (told.stdout + told.stderr).splitlines() if UNIT.name in line or str(unit) in line]
    assert (about, told.returncode) == ([], 0)


def test_systemd_finds_it_little_exposed() -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed here")
    told = subprocess.run(
        ("systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    level = re.search(r"exposure level for \S+: ([\d.]+)", told.stdout)
    if level is None:
        pytest.skip(f"this systemd-analyze does not judge files: {told.stderr.strip()[:100]}")
    assert float(level[1]) <= MOST_EXPOSED
