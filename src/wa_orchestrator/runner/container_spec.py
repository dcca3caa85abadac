"""Settings that all containers of an installation share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SUBNET = "172.28.0.0/16"
#: Label of every worker: the directory of its installation.
LABEL_HOME = "wa.home"


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
