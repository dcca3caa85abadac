"""One relay per proxy in use, on a real engine."""

import uuid
from pathlib import Path

import pytest
from aiodocker import Docker

from tests.runner.drivers import docker_or_skip, end_all, free_subnet, own_network
from tests.runner.images import imported, packed_worker
from wa_orchestrator.runner.container_spec import ContainerSpec
from wa_orchestrator.runner.contract import WorkerSpec
from wa_orchestrator.runner.docker import DockerRunner
from wa_orchestrator.runner.docker_relays import LABEL_RELAY_HOME

pytestmark = pytest.mark.docker
IDLE = ("node", "-e", "setInterval(() => {}, 1000); process.on('SIGTERM', () => process.exit())")


async def relays(docker: Docker, home: Path) -> list[str]:
    found = await docker.containers.list(all=True, filters={"label": [f"{LABEL_RELAY_HOME}={home}"]})
    return [" ".join((await each.show())["Config"]["Env"]) for each in found]


async def test_workers_of_one_proxy_share_a_relay_which_goes_with_the_last_of_them(tmp_path: Path) -> None:
    docker_or_skip()
    home, mark = tmp_path / "workers", uuid.uuid4().hex[:8]
    async with (
        Docker() as docker,
        imported(docker, packed_worker()) as image,
        own_network(docker) as network,
    ):
        runner = DockerRunner(docker, home, ContainerSpec(image, network=network, subnet=free_subnet(), command=IDLE))
        try:
            handles = []
            for name, proxy in (("a", "one"), ("b", "one"), ("c", "two")):
                secrets = {"PROXY_URL": f"socks5h://user:canary@{proxy}.example.com:1080"}
                spec = WorkerSpec(f"{name}-{mark}", 1, tmp_path / "sessions" / name, {}, secrets)
                handles.append(await runner.start(spec))
                told = (home / spec.session_id / "secrets" / "proxy_url").read_text()
                assert told.startswith("socks5h://user:canary@wa_relay_")
            shown = sorted(await relays(docker, home))
            assert ["one.example.com" in shown[0], "two.example.com" in shown[1], len(shown)] == [True, True, 2]
            assert "canary" not in "".join(shown)
            await runner.stop(handles[0], 0)
            assert len(await relays(docker, home)) == 2
            await runner.stop(handles[1], 0)
            assert len(await relays(docker, home)) == 1
            await runner.stop(handles[2], 0)
            assert await relays(docker, home) == []
        finally:
            await end_all(docker, home)
