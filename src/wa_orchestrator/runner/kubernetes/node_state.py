"""What the cluster says of a node, as far as the driver wants to know it."""

from collections.abc import Mapping
from typing import Any, Final

from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode, slots_in

_UNITS: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
#: What a cluster allows by default.
_PODS_OF_A_NODE: Final = 110


def node_of(node: Mapping[str, Any]) -> WorkerNode:
    status = node["status"]
    allocatable = status.get("allocatable") or {}
    memory = _bytes(str(allocatable.get("memory", "0")))
    state = NodeState.CLOSED if node.get("spec", {}).get("unschedulable") else NodeState.READY
    addresses = {each["type"]: str(each["address"]) for each in status.get("addresses") or ()}
    pods = int(allocatable.get("pods", _PODS_OF_A_NODE))
    return WorkerNode(
        node["metadata"]["name"],
        NodeState.LOST if is_away(node) else state,
        addresses.get("InternalIP", ""),
        memory,
        min(pods, slots_in(memory)),
    )


def is_away(node: Mapping[str, Any] | None) -> bool:
    """Whether nobody hears from a node. One that says of itself that it is not ready is there."""
    if node is None:
        return True
    ready = next((each for each in node["status"].get("conditions", ()) if each["type"] == "Ready"), None)
    return ready is not None and ready["status"] == "Unknown"


def _bytes(quantity: str) -> int:
    """Return a quantity of memory (`16Gi`, `16384Ki`, `1e9`, `128974848`) in bytes."""
    unit = next((each for each in _UNITS if quantity.endswith(each)), "")
    return round(float(quantity.removesuffix(unit)) * _UNITS.get(unit, 1))
