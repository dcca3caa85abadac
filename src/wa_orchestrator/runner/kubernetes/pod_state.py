"""What the cluster says of a Pod, as far as the driver wants to know it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from wa_orchestrator.runner.kubernetes.objects import EPOCH, SESSION

#: Reasons for which a container waits that no waiting cures: somebody has to change an image or a setting.
_HOPELESS: Final = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerError",
        "RunContainerError",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodState:
    """A worker's Pod at one moment."""

    name: str
    uid: str
    node: str
    """'' before the cluster has chosen one."""
    session_id: str
    epoch: int
    created_at_ms: int
    runs: bool
    """Its process runs, as far as its node has said."""
    has_ended: bool
    exit_code: int | None
    refusal: str
    """Why it will not run; '' if it may."""
    unplaced: str
    """Why no node takes it; '' if one does."""

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> "PodState":
        meta, status = pod["metadata"], pod.get("status", {})
        container = _container(status)
        waiting, ended = container.get("waiting", {}), container.get("terminated")
        conditions = {each["type"]: each for each in status.get("conditions") or ()}
        placed = conditions.get("PodScheduled", {})
        has_ended = status.get("phase") in ("Succeeded", "Failed")
        return cls(
            meta["name"],
            meta["uid"],
            pod["spec"].get("nodeName", ""),
            meta["annotations"][SESSION],
            int(meta["annotations"][EPOCH]),
            round(datetime.fromisoformat(meta["creationTimestamp"]).timestamp() * 1000),
            "running" in container and not has_ended,
            has_ended,
            ended["exitCode"] if ended else None,
            f"{waiting['reason']}: {waiting.get('message', '')}" if waiting.get("reason") in _HOPELESS else "",
            str(placed.get("message", "")) if placed.get("status") == "False" else "",
        )


def workers_among(pods: Iterable[Mapping[str, Any]]) -> list[PodState]:
    """Return the states of the Pods that are workers. One that has our label alone is somebody else's."""
    ours = [each for each in pods if {SESSION, EPOCH} <= (each["metadata"].get("annotations") or {}).keys()]
    return [PodState.of(each) for each in ours]


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of the Pod's one container."""
    told = status.get("containerStatuses") or [{}]
    state: Mapping[str, Any] = told[0].get("state", {})
    return state
