"""What only the driver of a Kubernetes cluster promises. The API server is a stand-in; its Pods are processes."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runner.cluster import own
from tests.runner.cluster.nodes import MISSING_IMAGE
from tests.runner.cluster.objects import Refusal
from tests.runner.cluster.server import TOKEN, Running
from tests.runner.drivers import LONELY_COMMAND, SESSION, cluster_of, end_of, is_ready, kubernetes_runner, spec
from tests.runner.test_factory import settings
from tests.waiting import until
from wa_orchestrator.cli import doctor
from wa_orchestrator.errors import BadSettings, Unavailable
from wa_orchestrator.runner.container_spec import AUTH_DIR_IN_MEMORY
from wa_orchestrator.runner.contract import Exited, Lost, LostAtStart, StartFailed, WorkerSpec
from wa_orchestrator.runner.contract import Running as WorkerRuns
from wa_orchestrator.runner.kubernetes import api as kubernetes_api
from wa_orchestrator.runner.kubernetes import driver, objects
from wa_orchestrator.runner.kubernetes.access import find_access
from wa_orchestrator.runner.kubernetes.driver import KubernetesRunner

PODS, SECRETS, POLICIES = "default/pods", "default/secrets", "default/networkpolicies"


@asynccontextmanager
async def opened(home: Path, **how: Any) -> AsyncIterator[KubernetesRunner]:
    """A driver; what it started is ended afterwards."""
    async with kubernetes_runner(home, cluster_of(home), **how) as runner:
        try:
            yield runner
        finally:
            for found in await runner.survey():
                await runner.stop(found.handle, 0)


def kept(cluster: Running, home: Path, collection: str) -> list[dict[str, Any]]:
    """What the cluster has of an installation."""
    selector = {objects.LABEL_CLUSTER: cluster_of(home)}
    listed: Any = cluster.call(cluster.cluster.store.list, collection, selector)
    return list(listed["items"])


def questions(cluster: Running) -> int:
    """How often the cluster was asked something; a watch is no question, and begins anew every minute."""
    return len([each for each in cluster.cluster.requests if "watch=" not in each])


async def becomes(runner: KubernetesRunner, handle: str, state: object) -> None:
    async def is_so() -> bool:
        with contextlib.suppress(Unavailable):  # for a moment, while a watch begins anew
            return await runner.poll(handle) == state
        return False

    await until(is_so, f"{handle} is {state}")


async def test_a_pod_is_hardened_reaches_its_proxy_and_the_server_alone_and_shows_no_secret(
    cluster: Running, tmp_path: Path
) -> None:
    secrets = {"WORKER_TOKEN": "canary-token-5f3a9c", "PROXY_URL": "socks5h://user:canary@localhost:1080"}
    told = {"WEBHOOK_URL": "http://192.0.2.7:3003/webhook", "OUTBOX_URL": "http://192.0.2.7:3003/api/outbox"}
    one = WorkerSpec(SESSION, 5, tmp_path / "sessions" / SESSION, told, secrets)
    async with opened(tmp_path) as runner:
        handle = await runner.start(one)
        await is_ready(one)
        (pod,), (secret,), (policy,) = (kept(cluster, tmp_path, each) for each in (PODS, SECRETS, POLICIES))
        assert handle == f"kubernetes/1/{pod['metadata']['name']}/{pod['metadata']['uid']}@node-a"
        await runner.stop(handle)
        assert [kept(cluster, tmp_path, each) for each in (PODS, SECRETS, POLICIES)] == [[], [], []]
    details, container = pod["spec"], pod["spec"]["containers"][0]
    assert "canary" not in json.dumps(pod)
    assert (details["restartPolicy"], details["automountServiceAccountToken"]) == ("Never", False)
    assert details["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["resources"]["limits"] == {"memory": "64Mi"}
    assert {kind for each in details["volumes"] for kind in each} == {"name", "emptyDir", "secret"}
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    told_dir = next(each["value"] for each in container["env"] if each["name"] == "AUTH_DIR")
    assert told_dir.startswith(f"{mounted['session']}/"), "the volume itself is root's: a worker cannot make it private"
    assert pod["metadata"]["annotations"] == {objects.SESSION: SESSION, objects.EPOCH: "5"}
    assert (secret["metadata"]["name"].endswith("-5"), secret["immutable"]) == (True, True)
    for each in (secret, policy):
        assert each["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    proxy = socket.getaddrinfo("localhost", None)[0][4][0]
    reached = [(each["to"][0]["ipBlock"]["cidr"], each["ports"][0]["port"]) for each in policy["spec"]["egress"]]
    assert reached == [(f"{proxy}/{128 if ':' in str(proxy) else 32}", 1080), ("192.0.2.7/32", 3003)]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy["spec"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


async def test_an_image_that_is_not_there_cannot_start_and_leaves_nothing(cluster: Running, tmp_path: Path) -> None:
    async with opened(tmp_path, image=MISSING_IMAGE) as runner:
        with pytest.raises(StartFailed, match="ErrImagePull"):
            await runner.start(spec(tmp_path))
    assert [kept(cluster, tmp_path, each) for each in (PODS, SECRETS, POLICIES)] == [[], [], []]


async def test_a_cluster_without_a_node_for_the_worker_is_no_fault_of_its_session(
    cluster: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_PLACED_WITHIN_S", 0.0)
    one = spec(tmp_path)
    async with opened(tmp_path) as runner:
        with pytest.raises(Unavailable, match="nodes are available"):
            await runner.start(WorkerSpec(SESSION, 1, one.auth_dir, {}, one.secrets, "node-of-nobody"))
    assert kept(cluster, tmp_path, PODS) == []


async def test_what_a_server_left_that_died_before_the_secret_never_starts_and_is_replaced(
    cluster: Running, tmp_path: Path
) -> None:
    async with opened(tmp_path) as runner:
        left = objects.worker_pod(cluster_of(tmp_path), spec(tmp_path, epoch=1), runner._container_spec, None)
        cluster.call(cluster.cluster._create, PODS, left)
        assert await runner.survey() == []
        handle = await runner.start(spec(tmp_path, epoch=2))
        assert [(each.handle, each.epoch) for each in await runner.survey()] == [(handle, 2)]


async def test_a_lost_nodes_worker_is_lost_and_another_starts_elsewhere(cluster: Running, tmp_path: Path) -> None:
    nodes = cluster.cluster.nodes
    async with opened(tmp_path) as runner:
        handle = await runner.start(spec(tmp_path, epoch=1))
        uid = handle.split("/")[3].partition("@")[0]
        cluster.call(nodes.lose, "node-a")
        try:
            await becomes(runner, handle, Lost())
            assert [(each.handle, each.is_lost) for each in await runner.survey()] == [(handle, True)]
            await runner.stop(handle)
            assert (await runner.poll(handle), await runner.survey()) == (Exited(), [])
            again = await runner.start(spec(tmp_path, epoch=2))
            assert again.endswith("@node-b")
            assert cluster.call(nodes.runs, uid), "the old worker should have run on"
        finally:
            cluster.call(nodes.find, "node-a")
        await until(lambda: not cluster.call(nodes.runs, uid), "the node has ended the old worker")
        assert await runner.poll(again) == WorkerRuns()


async def test_a_worker_whose_node_is_lost_while_it_starts_is_given_up_at_once(
    cluster: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = cluster.cluster.nodes
    async with opened(tmp_path) as runner:
        create = runner._api.create

        async def lose_first(collection: str, body: dict[str, Any]) -> dict[str, Any]:
            if collection == kubernetes_api.SECRETS:
                cluster.call(nodes.lose, "node-a")
            return await create(collection, body)

        with monkeypatch.context() as patch:
            patch.setattr(runner._api, "create", lose_first)
            try:
                with pytest.raises(LostAtStart, match="node-a"):
                    await runner.start(spec(tmp_path, epoch=1))
                assert kept(cluster, tmp_path, PODS) == []
                again = await runner.start(spec(tmp_path, epoch=2))
                assert again.endswith("@node-b")
            finally:
                cluster.call(nodes.find, "node-a")


async def test_a_worker_whose_node_is_lost_while_it_is_stopped_is_forgotten(cluster: Running, tmp_path: Path) -> None:
    nodes = cluster.cluster.nodes
    async with opened(tmp_path) as runner:
        one = spec(tmp_path, STUBBORN="1")
        handle = await runner.start(one)
        await is_ready(one)
        stopping = asyncio.create_task(runner.stop(handle, 3600))
        await until(lambda: "deletionTimestamp" in kept(cluster, tmp_path, PODS)[0]["metadata"], "it is being ended")
        cluster.call(nodes.lose, "node-a")
        try:
            await stopping
            assert await runner.poll(handle) == Exited()
        finally:
            cluster.call(nodes.find, "node-a")
        uid = handle.split("/")[3].partition("@")[0]
        await until(lambda: not cluster.call(nodes.runs, uid), "its node has ended it")


async def test_a_pod_that_was_deleted_by_force_is_lost_for_nobody_knows_whether_its_worker_ended(
    cluster: Running, tmp_path: Path
) -> None:
    async with opened(tmp_path) as runner:
        handle = await runner.start(spec(tmp_path))
        name, uid = handle.partition("@")[0].split("/")[2:]
        cluster.call(cluster.cluster.remove, PODS, name, 0)
        await becomes(runner, handle, Lost())
        assert await runner.survey() == []
        await runner.stop(handle)
        assert await runner.poll(handle) == Exited()
        await until(lambda: not cluster.call(cluster.cluster.nodes.runs, uid), "its node has ended it")


async def test_a_pod_of_somebody_else_with_our_label_is_neither_ours_nor_an_obstacle(
    cluster: Running, tmp_path: Path
) -> None:
    async with opened(tmp_path) as runner:
        copied = spec(tmp_path, f"{SESSION}-copied")
        body = objects.worker_pod(cluster_of(tmp_path), copied, runner._container_spec, None)
        foreign = body | {"metadata": body["metadata"] | {"name": "of-somebody-else", "annotations": {"by": "hand"}}}
        cluster.call(cluster.cluster._create, PODS, foreign)
        handle = await runner.start(spec(tmp_path))
        assert [each.handle for each in await runner.survey()] == [handle]
        async with opened(tmp_path) as another:
            assert await another.poll(handle) == WorkerRuns()


async def test_a_closed_nodes_worker_runs_on_and_the_next_one_is_placed_elsewhere(
    cluster: Running, tmp_path: Path
) -> None:
    async with opened(tmp_path) as runner:
        handle = await runner.start(spec(tmp_path, epoch=1))
        assert handle.endswith("@node-a")
        await runner.close_node("node-a")
        try:
            assert [(each.name, str(each.state)) for each in await runner.nodes()] == [
                ("node-a", "closed"), ("node-b", "ready"),
            ]  # fmt: skip
            assert await runner.poll(handle) == WorkerRuns()
            await runner.stop(handle)
            moved = await runner.start(spec(tmp_path, epoch=2))
            assert moved.endswith("@node-b")
        finally:
            await runner.open_node("node-a")
        (first, _) = await runner.nodes()
        assert (str(first.state), first.memory_bytes, first.worker_slots) == ("ready", 8 * 2**30, 110)
        await runner.close_node("gone-since")


async def test_polls_ask_the_cluster_nothing_and_changes_are_told(cluster: Running, tmp_path: Path) -> None:
    one = spec(tmp_path)
    async with opened(tmp_path) as runner:
        handle = await runner.start(one)
        await is_ready(one)
        before = questions(cluster)
        for _ in range(100):
            assert await runner.poll(handle) == WorkerRuns()
        (one.auth_dir / "end").touch()
        await becomes(runner, handle, Exited(7))
        assert questions(cluster) == before


async def test_a_watch_that_was_cut_and_changes_that_were_forgotten_lose_nothing(
    cluster: Running, tmp_path: Path
) -> None:
    first, second = spec(tmp_path, f"{SESSION}-1"), spec(tmp_path, f"{SESSION}-2")
    async with opened(tmp_path) as runner:
        handles = {one.session_id: await runner.start(one) for one in (first, second)}
        cluster.call(cluster.cluster.cut_watches)
        (first.auth_dir / "end").touch()
        await becomes(runner, handles[first.session_id], Exited(7))
        before = questions(cluster)
        for _ in range(3):  # other changes, until the cluster has forgotten where we were
            cluster.call(cluster.cluster.nodes.find, "node-b")
        cluster.call(cluster.cluster.store.forget_changes)
        cluster.call(cluster.cluster.cut_watches)
        (second.auth_dir / "end").touch()
        await becomes(runner, handles[second.session_id], Exited(7))
        assert questions(cluster) > before, "the driver should have listed anew"


async def test_a_cluster_that_does_not_tell_is_no_proof_of_an_end(cluster: Running, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    async with opened(tmp_path, token_file=token) as runner:
        handle = await runner.start(spec(tmp_path))
        token.write_text("expired")
        cluster.call(cluster.cluster.cut_watches)

        async def is_unavailable() -> bool:
            try:
                return await runner.poll(handle) is None
            except Unavailable:
                return True

        await until(is_unavailable, "the driver knows that it is told nothing")
        with pytest.raises(Unavailable):
            await runner.survey()
        token.write_text(TOKEN)  # the cluster exchanges it about once an hour

        async def runs() -> bool:
            try:
                return await runner.poll(handle) == WorkerRuns()
            except Unavailable:
                return False

        await until(runs, "the driver is told again")


def test_doctor_asks_the_cluster_as_a_start_would(cluster: Running, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": TOKEN}, cluster.url)
    found = doctor._kubernetes(settings(tmp_path, runner="kubernetes", kubernetes_config=path))
    assert (found.mark, found.text) == (doctor.Mark.OK, "kubernetes, 2 nodes")
    path = kubeconfig(tmp_path, {"token": "wrong"}, cluster.url)
    found = doctor._kubernetes(settings(tmp_path, runner="kubernetes", kubernetes_config=path))
    assert (found.mark, "401" in found.text) == (doctor.Mark.PROBLEM, True)


async def test_workers_go_with_the_object_that_stands_for_the_installation(cluster: Running, tmp_path: Path) -> None:
    name = f"{cluster_of(tmp_path)}-workers"
    owner: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    cluster.call(cluster.cluster.store.create, "default/configmaps", owner)
    async with opened(tmp_path) as runner:
        handle = await runner.start(spec(tmp_path))
        cluster.call(cluster.cluster.remove, "default/configmaps", name)
        await becomes(runner, handle, Exited())
        assert kept(cluster, tmp_path, SECRETS) == []


@pytest.mark.parametrize(
    ("user", "token"),
    [
        ({"token": "a-token"}, "a-token"),
        ({"tokenFile": "TOKEN_FILE"}, "from-a-file"),
        ({"tokenFile": "token"}, "from-a-file"),  # beside the file that names it, as kubectl reads it
    ],
)
def test_a_kubeconfig_names_the_cluster_its_namespace_and_who_we_are(
    user: dict[str, str], token: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    user = {name: value.replace("TOKEN_FILE", str(tmp_path / "token")) for name, value in user.items()}
    access = find_access(kubeconfig(tmp_path, user), None)
    assert (access.url, access.namespace, access.token) == ("http://192.0.2.9:6443", "messages", token)
    assert find_access(kubeconfig(tmp_path, user), "another").namespace == "another"


def test_a_kubeconfig_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="run a program"):
        find_access(kubeconfig(tmp_path, {"exec": {"command": "aws"}}), None)
    with pytest.raises(BadSettings, match="cannot be read"):
        find_access(tmp_path / "nothing", None)


def test_outside_of_a_cluster_a_kubeconfig_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadSettings, match="KUBERNETES_CONFIG"):
        find_access(None, None)


def kubeconfig(home: Path, user: dict[str, Any], url: str = "http://192.0.2.9:6443") -> Path:
    path = home / "kubeconfig"
    whole = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "messages"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(whole))
    return path


async def test_the_workers_of_a_developers_own_cluster_speak_with_the_tests_by_kubectl(
    cluster: Running, tmp_path: Path
) -> None:
    async def execute(pod: str, line: str) -> str | None:
        try:
            found: Any = cluster.call(cluster.cluster.store.get, PODS, pod)
        except Refusal:
            return None
        place = cluster.cluster.home / found["metadata"]["uid"] / "session" / Path(AUTH_DIR_IN_MEMORY).name
        variables = {"PATH": os.environ["PATH"], "AUTH_DIR": str(place)}
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", line, env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        said, _ = await process.communicate()
        return said.decode() if process.returncode == 0 else None

    one = spec(tmp_path)
    async with (
        opened(tmp_path, command=LONELY_COMMAND) as runner,
        own.carried(runner, cluster_of(tmp_path), tmp_path / "sessions", execute),
    ):
        handle = await runner.start(one)
        await is_ready(one)
        assert (one.auth_dir / "token").read_text() == one.secrets["WORKER_TOKEN"]
        assert await end_of(runner, handle, one) == Exited(7)
