"""The unit under a real systemd, in a container, set up by the very commands of the documents."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.documents import commands
from tests.deploy.compose import AUTHORITIES, Installation, compose_or_skip, installation
from tests.waiting import until_blocking

pytestmark = [pytest.mark.docker, pytest.mark.slow]
BUILD_S, BOOT_S = 600, 60
#: A machine with the product installed, and systemd. The rest is done by the documents.
MACHINE = """\
FROM {image}
USER root
ENV PATH=/opt/wa/bin:/opt/venv/bin:/usr/sbin:/usr/bin
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends passwd procps systemd systemd-sysv >/dev/null
COPY . /srv/deploy
RUN mkdir -p /opt/wa-orchestrator/bin && ln -s /opt/wa/bin/wa-orchestrator /opt/wa-orchestrator/bin/
WORKDIR /srv
HEALTHCHECK NONE
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/sbin/init"]
CMD []
"""
#: In place of real phones.
SIMULATED = "[Service]\nExecStart=\nExecStart=/opt/wa-orchestrator/bin/wa-orchestrator up --simulate --fleet 2\n"
DROP_IN = "/etc/systemd/system/wa-orchestrator.service.d"
#: What systemd needs to be the first process of a container.
AS_A_MACHINE = ("--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--cgroupns=private", "--tmpfs=/run",
                "--tmpfs=/tmp", "--env=container=docker", "--env=SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1")  # fmt: skip
WORKERS = "for p in /proc/[0-9]*; do grep -qsa loader[.]cjs $p/cmdline && basename $p; done; true"


def documented(*begins: str) -> list[str]:
    """The commands of docs/install.md that begin so, in their order."""
    return [each.line for each in commands() if each.page == "docs/install.md" and each.line.startswith(begins)]


class Machine:
    """A container whose first process is systemd."""

    def __init__(self, made: Installation, image: str) -> None:
        self.name, self._made = f"{made.prefix}_systemd", made
        made.run("docker", "run", "--detach", f"--name={self.name}", *AS_A_MACHINE, image)

    def do(self, line: str) -> str:
        return self._made.run("docker", "exec", self.name, "sh", "-c", line)

    def story(self) -> str:
        return self.do(
            "systemctl --no-pager status wa-orchestrator; journalctl --no-pager -n 30 --namespace wa-orchestrator; true"
        )

    def shows(self, *names: str) -> list[str]:
        """What systemd says of the unit, as `Name=value`."""
        return self.do(f"systemctl show wa-orchestrator -p {','.join(names)}").split()

    def workers(self) -> set[str]:
        """The pids of workers."""
        return set(self.do(WORKERS).split())

    def is_up(self) -> bool:
        return bool(re.search(r"running|degraded", self.do("systemctl is-system-running; true")))

    def are_connected(self) -> bool:
        command = (
            "/opt/wa-orchestrator/bin/wa-orchestrator status --data-dir /var/lib/wa-orchestrator 2>/dev/null; true"
        )
        return "2 connected" in self.do(command)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    compose_or_skip()
    with installation(tmp_path / "clone") as made:
        secret = (f"--secret=id=ca,src={AUTHORITIES}",) if AUTHORITIES.exists() else ()
        made.run("docker", "build", "--quiet", "--tag", made.image, *secret, ".", within_s=BUILD_S)
        (made.home / "machine.Dockerfile").write_text(MACHINE.format(image=made.image))
        image = f"{made.image}-systemd"
        made.run(
            "docker", "build", "--quiet", "--tag", image, "--file", "machine.Dockerfile", "deploy", within_s=BUILD_S
        )
        made.images.append(image)
        if (found := booted(made, image)) is None:
            pytest.skip("this engine runs no systemd in a container")
        yield found


def booted(made: Installation, image: str) -> Machine | None:
    """A machine that is up; None where the engine or its kernel does not let systemd be one."""
    with suppress(AssertionError):  # a command that failed: the container has ended, or was never begun
        found = Machine(made, image)
        begun = time.monotonic()
        while not found.is_up() and time.monotonic() < begun + BOOT_S:
            found.do("sleep 1")
        return found if found.is_up() else None
    return None


def test_a_reload_keeps_every_worker_and_a_stop_ends_them(machine: Machine) -> None:
    *prepare, start = documented("useradd", "install -", "systemctl daemon-reload")
    for line in prepare:
        machine.do(line)
    machine.do(f"mkdir -p {DROP_IN} && printf '{SIMULATED}' >{DROP_IN}/simulated.conf")
    machine.do(start)
    until_blocking(machine.are_connected, machine.story)
    began, [server] = machine.workers(), machine.shows("MainPID")
    assert len(began) == 2
    assert machine.shows("OOMPolicy", "StartLimitIntervalUSec") == ["OOMPolicy=continue", "StartLimitIntervalUSec=0"]
    [login] = documented("/opt/wa-orchestrator/bin/wa-orchestrator login-link")
    assert machine.do(f"cd /etc/wa-orchestrator && {login}").startswith("http://127.0.0.1:3001/")
    assert "fleet.linked" in machine.do("journalctl --no-pager --namespace wa-orchestrator")

    machine.do("systemctl reload wa-orchestrator")
    until_blocking(lambda: machine.shows("MainPID", "ActiveState")[0] not in (server, "MainPID=0"), machine.story)
    until_blocking(machine.are_connected, machine.story)
    assert machine.workers() == began, "the new server adopts the workers that run"

    machine.do("systemctl stop wa-orchestrator")
    assert machine.workers() == set()
