"""The description of a service: little privilege, bounded resources, an empty directory for credentials."""

from collections.abc import Mapping
from typing import Any, Final

from wa_orchestrator.domain.workers.nodes import RESERVED_BYTES
from wa_orchestrator.runner.container_spec import AUTH_DIR, NO_RESOLVER, NOT_COMPOSE, ContainerSpec

#: Time for a worker to finish its message; the engine is told at the start and not at the stop.
STOP_GRACE_S: Final = 10
_MB: Final = 1024 * 1024
_SECOND_NS: Final = 1_000_000_000


def service_template(
    spec: ContainerSpec, variables: Mapping[str, str], labels: Mapping[str, str], memory_mb: int, pids: int
) -> dict[str, Any]:
    """Return what workers and relays have in common."""
    container = {
        "Image": spec.image,
        "Env": dict(variables),
        "User": f"{spec.uid}:{spec.gid}",
        "Dir": "/",
        "Labels": NOT_COMPOSE | dict(labels),
        "ReadOnly": True,
        "Init": False,
        "CapabilityDrop": ["ALL"],
        # Engines before 25 do not know it and ignore it.
        "Privileges": {"NoNewPrivileges": True},
        "StopSignal": "SIGTERM",
        "StopGracePeriod": STOP_GRACE_S * _SECOND_NS,
        "Healthcheck": {"Test": ["NONE"]},
        "Mounts": [_tmpfs("/tmp", 16), *map(_bind, spec.binds)],  # noqa: S108 (inside the container)
    }
    return {
        "ContainerSpec": container,
        "Resources": {
            "Limits": {"MemoryBytes": memory_mb * _MB, "Pids": pids},
            "Reservations": {"MemoryBytes": min(memory_mb * _MB, RESERVED_BYTES)},
        },
        "LogDriver": {"Name": "json-file", "Options": {"max-size": "5m", "max-file": "2"}},
    }


def confine_worker(container: dict[str, Any]) -> None:
    """Add what only workers have: room for credentials in memory, and no look-up of foreign names."""
    container["Mounts"] = [_tmpfs(AUTH_DIR, 64), *container["Mounts"]]
    container["DNSConfig"] = {"Nameservers": [NO_RESOLVER]}


def _tmpfs(path: str, megabytes: int) -> dict[str, Any]:
    # Open to all users: the engine mounts it as root's, and nobody but the worker is in its container.
    options = {"SizeBytes": megabytes * _MB, "Mode": 0o1777}
    return {"Type": "tmpfs", "Target": path, "TmpfsOptions": options}


def _bind(written: str) -> dict[str, Any]:
    source, target, *mode = written.split(":")
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": mode == ["ro"]}
