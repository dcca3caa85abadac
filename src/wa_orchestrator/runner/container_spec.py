"""Settings that all containers of an installation share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.runner.contract import WorkerSpec
from wa_orchestrator.runner.node_command import ENVIRONMENT, heap_flag

SUBNET = "172.28.0.0/16"
#: Labels of every worker. Its installation: a directory, or in a cluster its name.
LABEL_HOME, LABEL_SESSION, LABEL_EPOCH = "wa.home", "wa.session", "wa.epoch"
#: Inside of a worker's container.
AUTH_DIR, SECRETS_DIR = "/app/session", "/run/secrets"
#: Where `AUTH_DIR` is memory that the engine mounts as root's: the worker makes a directory there that is its own.
AUTH_DIR_IN_MEMORY = f"{AUTH_DIR}/own"
#: Of a network for documents (RFC 5737): nobody answers there.
NO_RESOLVER = "192.0.2.1"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Settings of every worker's container."""

    image: str
    memory_mb: int = 256
    pids: int = 64
    uid: int = 10001
    gid: int = 10001
    network: str = "wa_workers"
    subnet: str = SUBNET
    """Used when the network has to be created."""
    outside: str = "bridge"
    """The network by which relays reach the proxies."""
    command: Sequence[str] = ()
    """Empty for the image's own."""
    binds: Sequence[str] = ()
    """Additional read-only mounts."""


#: An image that compose has built says so in labels, and compose would take its containers for parts.
NOT_COMPOSE = {"com.docker.compose.project": "", "com.docker.compose.service": ""}
#: What an image says for the server must not hold for its other containers: a worker serves nothing that could be
#: probed, and SIGTERM is what ends it.
UNINHERITED = {"Healthcheck": {"Test": ["NONE"]}, "StopSignal": "SIGTERM", "WorkingDir": "/"}


def hardened(memory_mb: int, pids: int) -> dict[str, Any]:
    """Return the engine's settings for a container with few privileges and bounded resources."""
    memory = memory_mb * 1024 * 1024
    return {
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "PidsLimit": pids,
        "Memory": memory,
        "MemorySwap": memory,
        "Tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,size=16m,mode=1777"},  # noqa: S108 (inside the container)
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "5m", "max-file": "2"}},
        "Init": False,
    }


def worker_variables(spec: WorkerSpec, memory_mb: int, auth_dir: str = AUTH_DIR) -> dict[str, str]:
    """Return the environment of a worker whose secrets are files in `SECRETS_DIR`."""
    return {
        **ENVIRONMENT,
        "NODE_OPTIONS": heap_flag(memory_mb),
        **spec.environment,
        **secret_variables(spec.secrets),
        "SESSION_ID": spec.session_id,
        "EPOCH": str(spec.epoch),
        "AUTH_DIR": auth_dir,
        "HOME": "/tmp",  # noqa: S108 (the container's own tmpfs)
    }


def secret_variables(names: Iterable[str]) -> dict[str, str]:
    """Return the variables that tell a worker where its secrets are."""
    return {f"{name}_FILE": f"{SECRETS_DIR}/{name.lower()}" for name in names}
