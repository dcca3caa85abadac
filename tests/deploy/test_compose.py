"""The owner's four commands, from a fresh clone: three simulated phones in worker containers, hardened, still linked."""

import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy.compose import Installation, compose_or_skip, installation
from tests.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.slow]
#: Parts that must be root, and why: one gives files away, the other speaks with the engine. Neither has a network.
ROOT_PARTS = {"setup", "runner"}
WITHIN_S = 240.0


class Api:
    """The server's HTTP API, as the machine's owner reaches it."""

    def __init__(self, made: Installation, key: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=f"http://localhost:{made.port}", headers={"X-API-Key": key}, timeout=30
        )

    async def sessions(self) -> list[dict[str, Any]]:
        try:
            answer = await self._client.get("/api/sessions")
        except httpx.TransportError:
            return []  # it starts
        return list(answer.json()["sessions"]) if answer.is_success else []

    async def are_connected(self) -> bool:
        return [each["status"] for each in await self.sessions()] == ["connected"] * 3

    async def messages_were_read(self) -> bool:
        listed = (await self._client.get("/api/v1/messages", params={"limit": 50})).json()["messages"]
        return len([each for each in listed if each["status"] == "read"]) >= 3


async def healthy(made: Installation) -> dict[str, str]:
    """`curl http://localhost:3001/health`, until it answers."""

    async def asked() -> dict[str, str] | None:
        try:
            async with httpx.AsyncClient(timeout=5) as client:
                answer = await client.get(f"http://localhost:{made.port}/health")
        except httpx.TransportError:
            return None
        return dict(answer.json()) if answer.is_success else None

    return await until(asked, made.story, WITHIN_S)


def service(container: dict[str, Any]) -> str:
    """The part that a container is; workers and relays have none."""
    labels = container["Config"]["Labels"]
    name: str = container["Name"].removeprefix("/")
    return str(labels.get("com.docker.compose.service") or name.rpartition("_")[0])


def is_hardened(container: dict[str, Any]) -> None:
    name, host, config = service(container), container["HostConfig"], container["Config"]
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["Privileged"]) == (True, ["ALL"], False), name
    assert "no-new-privileges:true" in host["SecurityOpt"], name
    assert config["User"] == ("0:0" if name in ROOT_PARTS else "10001:10001"), name
    assert host["NetworkMode"] == "none" or name not in ROOT_PARTS, name
    assert set(host["CapAdd"] or []) <= ({"CHOWN", "DAC_OVERRIDE", "FOWNER"} if name in ROOT_PARTS else set()), name
    assert host["Memory"] > 0, name
    assert host["PidsLimit"] > 0, name
    assert host["LogConfig"]["Config"]["max-size"], name
    mounted = {mount["Destination"] for mount in container["Mounts"]}
    assert ("/var/run/docker.sock" in mounted) == (name == "runner"), name


def secrets_of(made: Installation) -> dict[str, str]:
    """Everything that must not be seen: of the server, of Redis, of the proxies, of workers."""
    found = dict(json.loads((made.home / "data/server/secrets.json").read_text()))
    found["redis"] = (made.home / "data/config/redis_url").read_text().split("@")[0].rpartition(":")[2]
    ready = json.loads((made.home / "data/simulator/ready.json").read_text())
    found |= {url: url.split("@")[0].rpartition(":")[2] for url in ready["proxies"]}
    found |= {str(path): path.read_text() for path in (made.home / "data/workers").glob("*/secrets/*")}
    assert len(found) > 12, sorted(found)
    return found


async def test_four_commands_make_an_installation_that_links_sends_and_comes_back(tmp_path: Path) -> None:
    compose_or_skip()
    with installation(tmp_path / "clone") as made:
        made.run("cp", "env.example", ".env")
        made.build()
        made.compose("up", "-d")
        assert (await healthy(made))["status"] == "ok"
        link = made.compose("exec", "-T", "orchestrator", "wa-orchestrator", "login-link").strip()
        assert link.startswith(f"http://localhost:{made.port}/"), "the port that is published, not the one inside"

        secrets = secrets_of_server(made)
        api = Api(made, secrets["api_key"])
        await until(api.are_connected, made.story, WITHIN_S)
        await until(api.messages_were_read, made.story, WITHIN_S)

        containers = made.containers()
        names = [each["Name"].removeprefix("/") for each in containers]
        workers = {each["Id"] for each in containers if each["Name"].startswith("/wa_session_")}
        assert {"wa_session_support", "wa_session_sales", "wa_session_haifa", f"{made.prefix}_redis"} <= set(names)
        for each in containers:
            is_hardened(each)
        shown = json.dumps(containers)
        assert [name for name, value in secrets_of(made).items() if value in shown] == []
        network = made.networks()["workers"]
        assert network["Internal"]
        assert network["Options"]["com.docker.network.bridge.inhibit_ipv4"] == "true"
        assert made.reached_by_worker("support", 3003)
        assert not made.reached_by_worker("support", 3001), "the dashboard's port"
        only_there = [list(each["NetworkSettings"]["Networks"]) for each in containers if each["Id"] in workers]
        assert only_there == [[f"{made.prefix}_workers"]] * 3

        made.add_https()
        await https_answers(made, secrets["dashboard_password"])
        [tls] = [each for each in made.containers() if service(each) == "tls"]
        is_hardened(tls)
        made.remove_https()

        # All parts are made anew, and the new orchestrator adopts the workers that run.
        made.upgrade()
        await healthy(made)
        await until(api.are_connected, made.story, WITHIN_S)
        assert {each["Id"] for each in made.containers()} >= workers

        # Taken down, nothing is left; up again, without anybody who could scan, all are linked as before.
        assert "3 workers were ended" in made.compose("exec", "-T", "runner", "wa-orchestrator", "runner", "end")
        made.compose("down")
        assert (made.containers(), made.networks()) == ([], {})
        made.compose("up", "-d", "--scale", "fleet=0")
        await until(api.are_connected, made.story, WITHIN_S)


async def https_answers(made: Installation, password: str) -> None:
    """The profile tls: a certificate of its own authority, http leads to https, and the server knows that it is https."""
    root = made.home / "data/tls/caddy/pki/authorities/local/root.crt"
    await until(root.exists, made.story, WITHIN_S)
    url = f"https://localhost:{made.https_port}"
    trusted = ssl.create_default_context(cafile=str(root))
    async with httpx.AsyncClient(verify=trusted, base_url=url, timeout=30) as client:

        async def answered() -> httpx.Response | None:
            try:
                answer = await client.get("/health")
            except httpx.TransportError:
                return None  # it starts
            return answer if answer.is_success else None

        health = await until(answered, made.story, WITHIN_S)
        assert health.json()["status"] == "ok"
        assert "strict-transport-security" in health.headers
        login = await client.post("/login", data={"password": password}, headers={"Origin": url})
        assert login.status_code == 303, login.text
        cookie = login.headers["set-cookie"]
        assert cookie.startswith("__Host-"), "a cookie for https only"
        assert "Secure" in cookie
        plain = await client.get(f"http://localhost:{made.http_port}/scan")
        assert (plain.is_redirect, plain.headers["location"]) == (True, "https://localhost/scan")


def secrets_of_server(made: Installation) -> dict[str, str]:
    return dict(json.loads((made.home / "data/server/secrets.json").read_text()))
