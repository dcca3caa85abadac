"""The objects of a worker: its Pod, and the Secret and the NetworkPolicy that belong to the Pod and go with it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from wa_orchestrator.domain.workers.nodes import RESERVED_BYTES
from wa_orchestrator.runner.container_spec import (
    AUTH_DIR,
    AUTH_DIR_IN_MEMORY,
    NO_RESOLVER,
    SECRETS_DIR,
    ContainerSpec,
    worker_variables,
)
from wa_orchestrator.runner.contract import WorkerSpec

LABEL_CLUSTER, LABEL_POD = "wa-orchestrator/cluster", "wa-orchestrator/pod"
#: Not labels: a session's id may be longer than a label's value.
SESSION, EPOCH = "wa-orchestrator/session", "wa-orchestrator/epoch"
CONTAINER: Final = "worker"
STOP_GRACE_S: Final = 10
#: What the scheduler counts for a worker: an idle one needs about this.
_RESERVED: Final = {"memory": str(RESERVED_BYTES), "cpu": "5m"}
_DIRECTORY_MB: Final = 64


@dataclass(frozen=True, slots=True)
class AllowedAddress:
    """An address and port that a worker may connect to."""

    address: str
    port: int


def pod_name(cluster: str, session_id: str) -> str:
    """Return the name of a session's Pod. There is one for all epochs: the cluster refuses a second Pod by itself."""
    return f"{cluster}-session-{hashlib.sha256(session_id.encode()).hexdigest()[:16]}"


def secret_name(cluster: str, spec: WorkerSpec) -> str:
    return f"{pod_name(cluster, spec.session_id)}-{spec.epoch}"


def worker_pod(
    cluster: str, spec: WorkerSpec, shared: ContainerSpec, owner: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the Pod. It cannot start before its Secret exists."""
    variables = worker_variables(spec, shared.memory_mb, AUTH_DIR_IN_MEMORY)
    container = {
        "name": CONTAINER,
        "image": shared.image,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "workingDir": "/",
        "resources": {"limits": {"memory": f"{shared.memory_mb}Mi"}, "requests": _RESERVED},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "session", "mountPath": AUTH_DIR},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 (inside the container)
            {"name": "secrets", "mountPath": SECRETS_DIR, "readOnly": True},
        ],
    }
    if shared.command:
        container["command"] = list(shared.command)
    details: dict[str, Any] = {
        "restartPolicy": "Never",  # the cluster must not bring back what the server has ended
        "terminationGracePeriodSeconds": STOP_GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Its addresses are given as numbers: it has no names to look up, and could leak by them.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": [NO_RESOLVER]},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": shared.uid,
            "runAsGroup": shared.gid,
            "fsGroup": shared.gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "session", "emptyDir": {"medium": "Memory", "sizeLimit": f"{_DIRECTORY_MB}Mi"}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            {"name": "secrets", "secret": {"secretName": secret_name(cluster, spec), "defaultMode": 0o440}},
        ],
    }
    if spec.node:
        # By its name: its label with the host's name may say something else.
        named = {"key": "metadata.name", "operator": "In", "values": [spec.node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [named]}]}
        details["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    metadata = _metadata(cluster, pod_name(cluster, spec.session_id), spec, [owner] if owner else [])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": details}


def worker_secret(cluster: str, spec: WorkerSpec, files: Mapping[str, str], pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Secret of this epoch, with a file each."""
    metadata = _metadata(cluster, secret_name(cluster, spec), spec, [owner_reference(pod)])
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True, "stringData": dict(files)}


def worker_policy(
    cluster: str, spec: WorkerSpec, targets: Sequence[AllowedAddress], pod: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the NetworkPolicy: nobody connects to the worker, and it connects to `targets` alone.

    Policies add up: where the server runs in the cluster, another one of the installation leads all workers to it.
    """
    egress = [
        {
            "to": [{"ipBlock": {"cidr": f"{each.address}/{ip_address(each.address).max_prefixlen}"}}],
            "ports": [{"protocol": "TCP", "port": each.port}],
        }
        for each in targets
    ]
    name = pod_name(cluster, spec.session_id)
    details = {
        "podSelector": {"matchLabels": {LABEL_POD: name}},
        "policyTypes": ["Ingress", "Egress"],
        "egress": egress,
    }
    metadata = _metadata(cluster, secret_name(cluster, spec), spec, [owner_reference(pod)])
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": details}


def owner_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference by which the cluster deletes an object together with its owner."""
    named = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {"apiVersion": owner.get("apiVersion", "v1"), "kind": owner.get("kind", "Pod"), **named}


def _metadata(cluster: str, name: str, spec: WorkerSpec, owners: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    labels = {
        LABEL_CLUSTER: cluster,
        LABEL_POD: pod_name(cluster, spec.session_id),
        "app.kubernetes.io/name": "wa-orchestrator",
        "app.kubernetes.io/component": "worker",
    }
    annotations = {SESSION: spec.session_id, EPOCH: str(spec.epoch)}
    return {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": list(owners)}
