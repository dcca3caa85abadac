"""Starting from the command line: errors in one line with exit code 2, and nothing half created."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.processes import bare_environment, free_port
from tests.redis_server import redis_server
from tests.waiting import PATIENCE_S

PROGRAM = Path(sys.executable).parent / "wa-orchestrator"


#: Root may write everywhere, unless it drops that capability before the program starts.
WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


def run(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return _run(directory, [PROGRAM, *arguments], variables)


def _run(
    directory: Path, command: Sequence[str | Path], variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env={**bare_environment(), **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("variables", "begins"),
    [
        ({"API_KEY": ""}, "API_KEY: is empty"),
        ({"PROXY_URL_1": "http://user:canary@proxy.example.com:80"}, "PROXY_URL_1: begins with http://"),
        ({"MAX_SESSIONS_PER_PROXY": "0"}, "MAX_SESSIONS_PER_PROXY: must be"),
        ({"DATA_DIR": "/proc/wa-orchestrator"}, "DATA_DIR: /proc/wa-orchestrator cannot be written"),
        ({"DATA_DIR": "a-file/data"}, "DATA_DIR: "),
    ],
)
def test_a_wrong_setting_refuses_the_start_and_creates_nothing(
    tmp_path: Path, variables: dict[str, str], begins: str
) -> None:
    (tmp_path / "a-file").touch()
    free = {"SESSIONS_DIR": "s", "ORCH_PORT": "0", "GATEWAY_PORT": "0"}
    refused = run(tmp_path, "up", **free | variables)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith(begins)
    assert "Example: " in line
    assert "canary" not in refused.stderr + refused.stdout
    assert [each.name for each in tmp_path.iterdir()] == ["a-file"]


def test_directories_within_an_unwritable_one_are_not_reported_again(tmp_path: Path) -> None:
    refused = run(tmp_path, "up", "--port", "0", "--gateway-port", "0", "--data-dir", "/proc/wa-orchestrator")
    (line,) = refused.stderr.splitlines()
    assert line.startswith("DATA_DIR: ")


def test_a_port_in_use_refuses_the_start_and_creates_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run(tmp_path, "up", "--port", str(port), "--gateway-port", "0", "--worker-port", "0")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"ORCH_PORT: cannot bind 127.0.0.1:{port}: address already in use. Example: ")
    assert len(refused.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_without_write_permission_refuses_the_start(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    command = [*WITHOUT_CAPABILITIES, PROGRAM, "up", "--port", "0", "--gateway-port", "0"]
    refused = _run(tmp_path, command, {"DATA_DIR": str(closed)})
    assert refused.returncode == 2
    assert refused.stderr.startswith("DATA_DIR: ")


@pytest.mark.parametrize("part", ["gateway", "dispatcher", "orchestrator"])
def test_a_single_service_needs_a_shared_redis(tmp_path: Path, part: str) -> None:
    refused = run(tmp_path, part)
    assert refused.returncode == 2
    assert refused.stderr.startswith("REDIS_URL: is required")
    assert list(tmp_path.iterdir()) == []


def test_a_misspelled_setting_is_reported_at_start_with_the_right_name_and_without_its_value(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").write_text("API_KYE=canary-kZ8-vQ2_mN5xR7p\n")
    refused = run(tmp_path, "gateway", REDIS_URI="redis://user:canary@redis.example.com")
    said = refused.stderr.splitlines()
    assert said[:2] == [
        "Warning: API_KYE (.env) is not a setting and has no effect. Did you mean API_KEY?",
        "Warning: REDIS_URI (environment) is not a setting and has no effect. Did you mean REDIS_URL?",
    ]
    assert said[2].startswith("REDIS_URL: is required")
    assert (len(said), "canary" in refused.stderr) == (3, False)


def test_doctor_masks_secrets_shows_origins_and_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MAX_ATTEMPTS=5\nMAX_SESSION_PER_PROXY=2\n")
    variables = {
        "API_KEY": "canary-kZ8-vQ2_mN5xR7p",
        "PROXY_URL_2": "socks5h://user:canary@proxy.example.com:1080",
        "REDIS_URL": "unix:///nowhere/redis.sock?password=canary",
    }
    answer = run(tmp_path, "doctor", "--json", "--data-dir", str(tmp_path / "d"), **variables)
    assert answer.returncode == 1, "a Redis that does not answer is a problem"
    found = json.loads(answer.stdout)
    settings = {each["name"]: (each["value"], each["origin"]) for each in found["settings"]}
    assert settings["API_KEY"] == ("***", "environment")
    assert settings["PROXY_URL_2"] == ("socks5h://user:***@proxy.example.com:1080", "environment")
    assert settings["MAX_ATTEMPTS"] == ("5", ".env")
    assert settings["DATA_DIR"] == (str(tmp_path / "d"), "command line")
    assert settings["QUEUE_LIMIT"] == ("1000", "default")
    assert settings["WEBHOOK_SECRET"] == ("", "generated at the first start")
    findings = {each["name"]: each for each in found["findings"]}
    assert findings["redis"]["mark"] == "problem"
    assert "MAX_SESSION_PER_PROXY (.env) is not a setting" in findings["settings"]["text"]
    assert "Did you mean MAX_SESSIONS_PER_PROXY?" in findings["settings"]["text"]
    assert "canary" not in answer.stdout + answer.stderr
    assert [each.name for each in tmp_path.iterdir()] == [".env"]


def test_secrets_are_printed_only_after_a_start_has_generated_them(tmp_path: Path) -> None:
    before = run(tmp_path, "secrets")
    assert before.returncode == 2
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secrets.json").write_text(
        '{"api_key": "a1", "webhook_secret": "b2", "dashboard_password": "c3"}'
    )
    after = run(tmp_path, "secrets", "--json")
    assert json.loads(after.stdout) == {"API_KEY": "a1", "WEBHOOK_SECRET": "b2", "DASHBOARD_PASSWORD": "c3"}


def test_doctor_prints_brackets_as_they_are(tmp_path: Path) -> None:
    page = run(tmp_path, "doctor", PROXY_URL_1="socks5h://u:canary@[2001:db8::1]:1080", COLUMNS="200")
    assert "socks5h://u:***@[2001:db8::1]:1080" in page.stdout
    assert "slots for 4 sessions" in page.stdout


def _doctor(directory: Path, **variables: str) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Return the values of the settings, and mark and text of each finding."""
    found = json.loads(run(directory, "doctor", "--json", **variables).stdout)
    values = {each["name"]: each["value"] for each in found["settings"]}
    return values, {each["name"]: (each["mark"], each["text"]) for each in found["findings"]}


def test_doctor_warns_when_the_zone_is_utc_only_because_nobody_set_one(tmp_path: Path) -> None:
    mark, text = _doctor(tmp_path, TZ="UTC")[1]["timezone"]
    assert mark == "warning"
    assert "TIMEZONE=Asia/Jerusalem" in text
    assert _doctor(tmp_path, TZ="UTC", TIMEZONE="UTC")[1]["timezone"] == ("ok", "UTC")


@pytest.mark.parametrize(("appendfsync", "mark", "promises"), [("always", "ok", True), ("everysec", "warning", False)])
def test_doctor_says_what_becomes_of_accepted_messages(
    tmp_path: Path, appendfsync: str, mark: str, *, promises: bool
) -> None:
    with redis_server("--appendonly", "yes", "--appendfsync", appendfsync) as redis:
        found = _doctor(tmp_path, REDIS_URL=redis.url)[1]["redis"]
    assert (found[0], "A 202 is on the disk of one machine" in found[1]) == (mark, promises)
    assert "A 202 is on the disk of one machine" in _doctor(tmp_path)[1]["redis"][1], "the embedded one promises it"


@pytest.mark.parametrize(("option", "mark"), [("true", "ok"), ("", "warning")])
def test_doctor_warns_when_workers_in_containers_reach_services_of_the_machine(
    tmp_path: Path, option: str, mark: str
) -> None:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\nif [ "$1" = version ]; then echo 20.10; else echo "{option}"; fi\n')
    docker.chmod(0o755)
    found = _doctor(tmp_path, RUNNER="docker", PATH=f"{docker.parent}:/usr/bin:/bin")[1]["runner"]
    assert (found[0], "docs/runner.md" in found[1]) == (mark, mark == "warning")


@pytest.mark.parametrize(
    ("state", "away", "mark", "said"),
    [
        ("active true", "", "ok", "swarm, Docker 20.10"),
        ("active false", "", "problem", "docker swarm init"),
        ("active true", "node-2", "warning", "node-2"),
    ],
)
def test_doctor_says_whether_the_engine_manages_a_swarm_and_which_nodes_are_away(
    state: str, away: str, mark: str, said: str, tmp_path: Path
) -> None:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    answers = f'version) echo 20.10;; info) echo "{state}";; node) echo "{away}";;'
    docker.write_text(f'#!/bin/sh\ncase "$1" in {answers} esac\n')
    docker.chmod(0o755)
    found = _doctor(tmp_path, RUNNER="swarm", PATH=f"{docker.parent}:/usr/bin:/bin")[1]["runner"]
    assert (found[0], said in found[1]) == (mark, True)


def test_doctor_shows_the_values_in_effect_and_not_empty_ones(tmp_path: Path) -> None:
    port, other = str(free_port()), str(free_port())
    chosen = {"ORCH_PORT": port, "WORKER_PORT": other, "PACING_PRESET": "conservative", "COLD_PER_DAY": "7"}
    values, findings = _doctor(tmp_path, **chosen)
    urls = (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{other}")
    assert (values["PUBLIC_URL"], values["WORKER_URL"]) == urls
    assert values["REDIS_URL"] == "embedded"
    assert values["WORKER_BUNDLE"].endswith("worker.cjs")
    assert (values["COLD_PER_DAY"], values["WARM_PER_DAY"], values["HOT_HOURS"]) == ("7", "50", "07:00-23:00")
    assert (values["WARM_PAUSE_MIN_MS"], values["WARM_PAUSE_MAX_MS"]) == ("21000", "39000")
    assert findings["ports"][1].startswith(f"ORCH_PORT {port} is free")
    assert findings["server"][0] == "ok"


def test_doctor_says_when_a_port_belongs_to_another_program(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        mark, text = _doctor(tmp_path, ORCH_PORT=port)[1]["ports"]
    assert mark == "warning"
    assert f"cannot bind 127.0.0.1:{port}" in text
