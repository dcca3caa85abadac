"""Kubernetes driver: each worker is a bare Pod without a volume, found again by label, never restarted.

The Pod is created first and cannot start before its Secret exists; its NetworkPolicy and then its Secret follow, owned
by it. So there is never a worker without its policy, and what a server that dies in between leaves behind never starts.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.workers.nodes import WorkerNode
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.container_spec import SECRETS_DIR, ContainerSpec
from wa_orchestrator.runner.contract import (
    AlreadyRunning,
    Exited,
    Lost,
    LostAtStart,
    NoNodeForWorker,
    Running,
    StartFailed,
    WorkerSpec,
)
from wa_orchestrator.runner.docker_relays import SERVER_URLS
from wa_orchestrator.runner.kubernetes import node_state, objects
from wa_orchestrator.runner.kubernetes.api import (
    CONFLICT,
    NODES,
    NOT_FOUND,
    PODS,
    POLICIES,
    SECRETS,
    KubernetesApi,
    KubernetesError,
)
from wa_orchestrator.runner.kubernetes.node_state import is_away
from wa_orchestrator.runner.kubernetes.objects import AllowedAddress
from wa_orchestrator.runner.kubernetes.pod_state import PodState, workers_among
from wa_orchestrator.runner.kubernetes.watch import ClusterWatch, watching

NAME: Final = "kubernetes/1"
OWNERS: Final = "/api/v1/namespaces/{}/configmaps"
_AUTHORITIES: Final = "NODE_EXTRA_CA_CERTS"
#: A change that the watch has missed is asked for after this time.
_ASK_AGAIN_S: Final = 1.0
#: A node without the image has to fetch it first.
_RUNNING_WITHIN_S: Final = 300.0
#: How long the cluster may say that no node has room.
_PLACED_WITHIN_S: Final = 15.0
_GONE_WITHIN_S: Final = 120.0
_TRIES: Final = 3

log = structlog.get_logger(__name__)


class KubernetesRunner:
    """Runs workers as Pods of the installation `cluster`. See `contract.Runner`; use `opened` to open one."""

    def __init__(self, api: KubernetesApi, watch: ClusterWatch, cluster: str, container_spec: ContainerSpec) -> None:
        self._api = api
        self._watch = watch
        self._cluster = cluster
        self._selector = f"{objects.LABEL_CLUSTER}={cluster}"
        self._container_spec = container_spec

    async def start(self, spec: WorkerSpec) -> str:
        """Create the Pod, its policy and its Secret, and wait until its container runs."""
        spec, files = _with_authorities(spec)
        spec, targets = await _by_address(spec)
        files |= {name.lower(): value for name, value in spec.secrets.items()}
        try:
            pod = await self._create_pod(spec)
        except KubernetesError as error:
            raise StartFailed(f"Kubernetes could not create the worker's Pod: {error.text}") from error
        state = PodState.of(pod)
        try:
            await self._api.create(POLICIES, objects.worker_policy(self._cluster, spec, targets, pod))
            await self._api.create(SECRETS, objects.worker_secret(self._cluster, spec, files, pod))
            return _handle(await self._wait_until_running(state))
        except KubernetesError as error:
            await self._remove(state, 1)
            raise StartFailed(f"Kubernetes could not create what belongs to the worker's Pod: {error.text}") from error
        except BaseException:
            await asyncio.shield(self._remove(state, 1))
            raise

    async def poll(self, handle: str) -> Running | Exited | Lost:
        """Look the Pod up in what the cluster has told."""
        if (named := _named(handle)) is None:
            return Exited()
        pod = self._watch.pod(*named)
        if pod is None:
            return Lost() if self._watch.vanished(named[1]) else Exited()
        if pod.has_ended:
            return Exited(pod.exit_code)
        return Lost() if self._watch.is_away(pod.node) else Running()

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Delete the Pod; what belongs to it goes with it. Of a lost one only the record: its node ends it later."""
        if (named := _named(handle)) is None:
            return
        pod = await self._ask(*named)
        if pod is None:
            self._watch.note_gone(*named)
            return
        # 0 would only forget the Pod: its node has not ended it then.
        await self._remove(pod, 0 if self._watch.is_away(pod.node) else max(1, int(grace_s)))

    async def survey(self) -> Sequence[FoundWorker]:
        """Ask the cluster for all Pods and nodes."""
        try:
            listed = await self._api.list(PODS, self._selector)
            nodes = {each["metadata"]["name"]: each for each in (await self._api.list(NODES))["items"]}
        except KubernetesError as error:
            raise _refused(error) from error
        return [
            FoundWorker(_handle(each), each.session_id, each.epoch, each.created_at_ms, is_away(nodes.get(each.node)))
            for each in workers_among(listed["items"])
            if each.runs
        ]

    async def nodes(self) -> Sequence[WorkerNode]:
        """Return all nodes of the cluster, by their own conditions and what is allocatable there."""
        try:
            return [node_state.node_of(each) for each in (await self._api.list(NODES))["items"]]
        except KubernetesError as error:
            raise _refused(error) from error

    async def close_node(self, node: str) -> None:
        """Cordon the node, as `kubectl cordon` does."""
        await self._set_unschedulable(node, value=True)

    async def vacate_node(self, node: str) -> None:
        """Nothing but workers is there: they reach their proxies without relays."""

    async def open_node(self, node: str) -> None:
        """Uncordon the node."""
        await self._set_unschedulable(node, value=None)

    async def _set_unschedulable(self, node: str, *, value: bool | None) -> None:
        try:
            await self._api.patch(NODES, node, {"spec": {"unschedulable": value}})
        except KubernetesError as error:
            if error.status != NOT_FOUND:
                raise _refused(error) from error

    async def _create_pod(self, spec: WorkerSpec) -> dict[str, Any]:
        """Create the Pod. One that has ended, or that a server which died has left without its Secret, is removed."""
        body = objects.worker_pod(self._cluster, spec, self._container_spec, await self._owner())
        for _ in range(_TRIES):
            try:
                return await self._api.create(PODS, body)
            except KubernetesError as error:
                if error.status != CONFLICT:
                    raise
            old = await self._ask(body["metadata"]["name"], None)
            if old is not None and old.runs:
                raise AlreadyRunning(spec.session_id)
            if old is not None:
                await self._remove(old, 1)
        raise AlreadyRunning(spec.session_id)

    async def _owner(self) -> dict[str, Any] | None:
        """Return the object with which all workers go, if the installation has one."""
        try:
            owner = await self._api.get(OWNERS, f"{self._cluster}-workers")
        except KubernetesError as error:
            if error.status != NOT_FOUND:
                raise
            return None
        return objects.owner_reference({"kind": "ConfigMap", **owner})

    async def _wait_until_running(self, pod: PodState) -> PodState:
        began = time.monotonic()
        while True:
            found = await self._ask(pod.name, pod.uid)
            if found is None or found.has_ended or found.refusal:
                reason = found.refusal or f"it ended with code {found.exit_code}" if found else "its Pod was deleted"
                raise StartFailed(f"The worker did not run: {reason}")
            if found.runs:
                return found
            if self._watch.is_away(found.node):
                # The cluster moves no Pod, and the node may have learned of it.
                raise LostAtStart(f"The node {found.node} does not answer: nobody knows whether the worker runs.")
            waited_s = time.monotonic() - began
            if waited_s > _RUNNING_WITHIN_S or (found.unplaced and waited_s > _PLACED_WITHIN_S):
                # No fault of the session: it must not use up its restarts.
                text = f"The cluster does not run a Pod: {found.unplaced or 'it takes too long'}"
                raise NoNodeForWorker(text)
            await self._watch.news(_ASK_AGAIN_S)

    async def _remove(self, pod: PodState, grace_s: int) -> None:
        """Delete a Pod and wait until it is gone. Where its node is lost meanwhile, only the record goes."""
        deadline = time.monotonic() + _GONE_WITHIN_S
        try:
            await self._api.delete(PODS, pod.name, grace_s=grace_s, uid=pod.uid)
            while (left := await self._ask(pod.name, pod.uid)) is not None:
                if grace_s > 0 and self._watch.is_away(left.node):
                    grace_s = 0
                    await self._api.delete(PODS, pod.name, grace_s=0, uid=pod.uid)
                    continue
                if time.monotonic() > deadline:
                    raise Unavailable("WORKER_NOT_STOPPED", f"The cluster does not end the Pod {pod.name}.")
                await self._watch.news(_ASK_AGAIN_S)
        except KubernetesError as error:
            if error.status not in (NOT_FOUND, CONFLICT):  # gone, or another one has its name
                raise _refused(error) from error
        self._watch.note_gone(pod.name, pod.uid)

    async def _ask(self, name: str, uid: str | None) -> PodState | None:
        """Return a Pod as it is now; None if it is gone, or another one of its name is there."""
        try:
            found = PodState.of(await self._api.get(PODS, name))
        except KubernetesError as error:
            if error.status != NOT_FOUND:
                raise _refused(error) from error
            return None
        if uid is not None and found.uid != uid:
            return None
        self._watch.note(found)
        return found


@asynccontextmanager
async def opened(api: KubernetesApi, cluster: str, container_spec: ContainerSpec) -> AsyncIterator[KubernetesRunner]:
    """Open the driver, which watches the cluster while the block runs."""
    async with watching(api, f"{objects.LABEL_CLUSTER}={cluster}") as watch:
        yield KubernetesRunner(api, watch, cluster, container_spec)


async def _by_address(spec: WorkerSpec) -> tuple[WorkerSpec, list[AllowedAddress]]:
    """Return the spec with addresses in place of names, which a worker cannot look up, and all that it may reach."""
    targets: list[AllowedAddress] = []
    secrets, environment = dict(spec.secrets), dict(spec.environment)
    if url := secrets.get("PROXY_URL"):
        proxy = proxy_url.parse(url)
        targets.append(AllowedAddress(await _address(proxy.host), proxy.port))
        secrets["PROXY_URL"] = replace(proxy, host=targets[-1].address).url
    for name in sorted(SERVER_URLS & environment.keys()):
        parts = urlsplit(environment[name])
        target = AllowedAddress(
            await _address(str(parts.hostname)), parts.port or (443 if parts.scheme == "https" else 80)
        )
        if target not in targets:
            targets.append(target)
        if parts.scheme == "http":  # over TLS the name is what the certificate is for
            named = f"[{target.address}]" if ":" in target.address else target.address
            environment[name] = parts._replace(netloc=f"{named}:{target.port}").geturl()
    return replace(spec, secrets=secrets, environment=environment), targets


async def _address(host: str) -> str:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), None)
    except OSError as error:
        raise StartFailed(f"The name {host} cannot be looked up: {error}") from error
    return str(found[0][4][0])


def _with_authorities(spec: WorkerSpec) -> tuple[WorkerSpec, dict[str, str]]:
    """Return the spec as the container sees it, and the certificates that it trusts, which travel as secrets do."""
    if not (path := spec.environment.get(_AUTHORITIES)):
        return spec, {}
    name = _AUTHORITIES.lower()
    environment = {**spec.environment, _AUTHORITIES: f"{SECRETS_DIR}/{name}"}
    try:
        return replace(spec, environment=environment), {name: Path(path).read_text("utf-8")}
    except OSError as error:
        raise StartFailed(f"{path} cannot be read: {error}") from error


def _handle(pod: PodState) -> str:
    return f"{NAME}/{pod.name}/{pod.uid}@{pod.node}"


def _named(handle: str) -> tuple[str, str] | None:
    """Return name and uid of a handle's Pod; None if it is none of ours."""
    parts = handle.partition("@")[0].split("/")
    return (parts[2], parts[3]) if len(parts) == 4 and "/".join(parts[:2]) == NAME else None


def _refused(error: KubernetesError) -> Unavailable:
    return Unavailable("KUBERNETES_UNAVAILABLE", f"The Kubernetes API server refuses: {error}")
