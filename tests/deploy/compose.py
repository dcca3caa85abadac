"""An installation by compose.yaml, in a directory and with names, ports and addresses of its own."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.wheels import ROOT
from tests.processes import free_port
from tests.runner.drivers import docker_or_skip, free_subnet

#: Of the machine, for builds behind an authority of its own.
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_PLUGINS = ROOT / ".cache" / "docker" / "config"
#: A whole build on a machine that does other things, too.
_BUILD_S, _COMMAND_S = 600, 240


def compose_or_skip() -> None:
    """Skip where images cannot be built; with CI=true that is a failure. `.ci/images` makes it possible."""
    docker_or_skip()
    base = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("ARG BASE="))
    checks = {
        "docker compose is missing": ("docker", "compose", "version"),
        f"{base} cannot be had": ("docker", "image", "inspect", base.removeprefix("ARG BASE=")),
    }
    problems = [text for text, command in checks.items() if _run(command, _environment()).returncode]
    if os.geteuid() != 0:
        problems.append("files of containers cannot be looked at and removed without root")
    if problems and os.environ.get("CI") == "true":
        pytest.fail("; ".join(problems))
    if problems:
        pytest.skip("; ".join(problems))


class Installation:
    """A fresh clone in `home`. What it starts has names of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.prefix = f"wat{uuid.uuid4().hex[:6]}"
        self.port, self.control_port, self.https_port, self.http_port = (free_port() for _ in range(4))
        workers, tls = ip_network(free_subnet()), ip_network(free_subnet())
        lower, upper = workers.subnets()
        self._variables = {
            "COMPOSE_PROJECT_NAME": self.prefix,
            "WA_PREFIX": self.prefix,
            "WA_IMAGE": f"{self.prefix}:test",
            "ORCH_PORT": str(self.port),
            "GATEWAY_PORT": str(free_port()),
            "SIMULATOR_PORT": str(self.control_port),
            "HTTPS_PORT": str(self.https_port),
            "HTTP_PORT": str(self.http_port),
            "WORKERS_SUBNET": str(workers),
            "WORKERS_RANGE": str(upper),
            "WORKERS_ADDRESS": str(lower[3]),
            "TLS_SUBNET": str(tls),
            "TLS_RANGE": str(list(tls.subnets())[1]),
            "TLS_ADDRESS": str(tls[2]),
            **({"CA_FILE": str(AUTHORITIES)} if AUTHORITIES.exists() else {}),
        }
        self.images = [self.image, f"{self.prefix}-orchestrator-tls:latest"]
        _clone(home)

    def run(self, *command: str, within_s: float = _COMMAND_S, **variables: str) -> str:
        """Run a command in the directory, as a person would; give what it printed."""
        done = _run(command, _environment() | self._variables | variables, self.home, within_s)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}\n{self.story()}"
        return done.stdout

    def compose(self, *arguments: str, within_s: float = _COMMAND_S) -> str:
        return self.run("docker", "compose", *arguments, within_s=within_s, COMPOSE_PROFILES="simulate")

    def add_https(self) -> None:
        """Start the reverse proxy beside what runs, as `docker compose --profile tls up -d` does."""
        self.run("docker", "compose", "up", "-d", "tls", within_s=_BUILD_S, COMPOSE_PROFILES="simulate,tls")

    def remove_https(self) -> None:
        """Take the reverse proxy away again: what has no active profile is not taken down with the others."""
        self.run("docker", "compose", "rm", "--stop", "--force", "tls", COMPOSE_PROFILES="simulate,tls")

    def build(self) -> None:
        self.run("docker", "compose", "build", within_s=_BUILD_S)

    @property
    def image(self) -> str:
        """The image of all parts and workers."""
        return self._variables["WA_IMAGE"]

    def upgrade(self) -> None:
        """What the documents say, with the version that is there: keep the image under another name, make all parts anew.

        From the kept one, which is also how a rollback goes. Without a profile: proxies are elsewhere in earnest, and stay.
        """
        self.run("docker", "tag", self.image, f"{self.image}-before")
        self.images.append(f"{self.image}-before")
        self._variables["WA_IMAGE"] = f"{self.image}-before"
        self.run("docker", "compose", "up", "-d", "--force-recreate")

    def reached_by_worker(self, session: str, port: int) -> bool:
        """Whether code in a worker's container gets an answer from this port of the orchestrator."""
        url = f"http://{self._variables['WORKERS_ADDRESS']}:{port}/health"
        code = f"fetch('{url}').then(() => console.log('answered'), () => console.log('nothing'))"
        return "answered" in self.run("docker", "exec", f"wa_session_{session}", "node", "-e", code)

    def containers(self) -> list[dict[str, Any]]:
        """Everything of it that the engine has: the parts, workers and relays, as `docker inspect` shows them."""
        shown: list[dict[str, Any]] = []
        labels = (f"com.docker.compose.project={self.prefix}", *(f"{each}={self.workers_home}" for each in _LABELS))
        for label in labels:
            ids = _run(("docker", "ps", "-aq", "--filter", f"label={label}"), _environment()).stdout.split()
            shown += json.loads(_run(("docker", "inspect", *ids), _environment()).stdout) if ids else []
        return shown

    @property
    def workers_home(self) -> Path:
        """How the engine knows the installation of workers and relays."""
        return self.home / "data" / "workers"

    def networks(self) -> dict[str, dict[str, Any]]:
        names = _run(("docker", "network", "ls", "-q", "--filter", f"name={self.prefix}_"), _environment()).stdout
        shown = _run(("docker", "network", "inspect", *names.split()), _environment()).stdout if names else "[]"
        return {each["Name"].removeprefix(f"{self.prefix}_"): each for each in json.loads(shown)}

    def _named(self, *listing: str) -> list[str]:
        """What a list of the engine has under a name of this installation."""
        return _run(("docker", *listing, "-q", "--filter", f"name={self.prefix}"), _environment()).stdout.split()

    def story(self) -> str:
        """What the parts have said last, for an error."""
        variables = _environment() | self._variables | {"COMPOSE_PROFILES": "simulate"}
        return _run(("docker", "compose", "logs", "--tail", "15"), variables, self.home).stdout

    def remove(self) -> None:
        """Leave nothing at the engine but the cache of its builder."""
        variables = _environment() | self._variables | {"COMPOSE_PROFILES": "simulate"}
        ids = {each["Id"] for each in self.containers()} | set(self._named("ps", "-a", "--no-trunc"))
        if ids:
            _run(("docker", "rm", "-f", "-v", *ids), _environment())
        _run(("docker", "compose", "down", "--volumes", "--timeout", "1"), variables, self.home)
        if volumes := self._named("volume", "ls"):
            _run(("docker", "volume", "rm", *volumes), _environment())
        _run(("docker", "image", "rm", "-f", *self.images), _environment())
        shutil.rmtree(self.home, ignore_errors=True)


_LABELS = ("wa.home", "wa.relay.home")


@contextmanager
def installation(home: Path) -> Iterator[Installation]:
    made = Installation(home)
    try:
        yield made
    finally:
        made.remove()


def _clone(to: Path) -> None:
    """Copy what belongs to the repository, as it is now: what a fresh clone of the next commit would have."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source := ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)


def _environment() -> dict[str, str]:
    own = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
    # BuildKit: an older engine's client has it, but not by itself.
    return own | {"DOCKER_BUILDKIT": "1"} | ({"DOCKER_CONFIG": str(_PLUGINS)} if _PLUGINS.is_dir() else {})


def _run(
    command: tuple[str, ...], env: dict[str, str], cwd: Path | None = None, within_s: float = _COMMAND_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, cwd=cwd, check=False, capture_output=True, text=True, timeout=within_s)
