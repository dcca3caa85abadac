"""What only the driver of containers promises."""

import json
from pathlib import Path

import pytest
from aiodocker import Docker

from tests.runner.drivers import SESSION, docker_or_skip, driver, free_subnet, is_ready, own_network, spec
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.container_spec import ContainerSpec
from wa_orchestrator.runner.contract import StartFailed
from wa_orchestrator.runner.docker import DockerRunner
from wa_orchestrator.runner.swarm.driver import SwarmRunner

pytestmark = pytest.mark.docker


async def test_a_container_is_hardened_limited_and_shows_no_secret(tmp_path: Path) -> None:
    one = spec(tmp_path, epoch=5)
    async with driver("docker", tmp_path) as runner, Docker() as docker:
        await runner.start(one)
        await is_ready(one)
        shown = await (await docker.containers.get(f"wa_session_{SESSION}")).show()
        network = await (await docker.networks.get(shown["HostConfig"]["NetworkMode"])).show()
    host = shown["HostConfig"]
    assert "canary" not in json.dumps(shown)
    assert shown["Config"]["User"] not in ("", "0", "root")
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["Privileged"]) == (True, ["ALL"], False)
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert (host["PidsLimit"], host["Memory"], host["MemorySwap"]) == (32, 64 << 20, 64 << 20)
    assert host["RestartPolicy"]["Name"] in ("no", "")
    assert (shown["Config"]["Labels"]["wa.session"], shown["Config"]["Labels"]["wa.epoch"]) == (SESSION, "5")
    assert (network["Name"].startswith("wa-test-"), network["Internal"]) == (True, True)
    assert (ContainerSpec("any").network, ContainerSpec("any").subnet) == ("wa_workers", "172.28.0.0/16")


async def test_an_image_that_is_not_there_cannot_start_and_leaves_nothing(tmp_path: Path) -> None:
    docker_or_skip()
    async with Docker() as docker, own_network(docker) as network:
        box = ContainerSpec("nowhere.invalid/none:latest", network=network, subnet=free_subnet())
        runner = DockerRunner(docker, tmp_path / "workers", box)
        with pytest.raises(StartFailed):
            await runner.start(spec(tmp_path))
        assert await runner.survey() == []


async def test_a_network_that_leads_somewhere_is_not_used(tmp_path: Path) -> None:
    docker_or_skip()
    async with Docker() as docker, own_network(docker) as name:
        await docker.networks.create({"Name": name, "IPAM": {"Config": [{"Subnet": free_subnet()}]}})
        runner = DockerRunner(docker, tmp_path / "workers", ContainerSpec("any", network=name))
        with pytest.raises(StartFailed, match=f"docker network rm {name}"):
            await runner.start(spec(tmp_path))


async def test_an_engine_that_does_not_answer_is_no_proof_of_an_end(tmp_path: Path) -> None:
    async with Docker(url=f"unix://{tmp_path}/nothing.sock") as docker:
        runner = DockerRunner(docker, tmp_path / "workers", ContainerSpec("any"))
        with pytest.raises(Unavailable):
            await runner.poll("docker/1/abc")


async def test_a_start_while_the_engine_is_away_is_no_failure_of_the_session(tmp_path: Path) -> None:
    async with Docker(url=f"unix://{tmp_path}/nothing.sock") as docker:
        for runner in (
            DockerRunner(docker, tmp_path / "workers", ContainerSpec("any")),
            SwarmRunner(docker, "any", ContainerSpec("any")),
        ):
            with pytest.raises(Unavailable) as raised:
                await runner.start(spec(tmp_path))
            assert not isinstance(raised.value, StartFailed)
