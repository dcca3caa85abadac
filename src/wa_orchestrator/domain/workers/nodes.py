"""Nodes: the machines that workers run on, and which sessions leave one that is drained."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: What an engine counts for a worker when it chooses a node: an idle one needs about this.
RESERVED_BYTES: Final = 32 * 1024 * 1024
#: Sessions that are away at the same time because of drains: those that wait for their turn are still connected, and
#: each that leaves is back sooner.
MOVES_AT_ONCE: Final = 2


class NodeState(StrEnum):
    """Whether a node has workers and gets new ones."""

    READY = "ready"
    DRAINING = "draining"
    """An operator drains it: its sessions move to other nodes, a few at a time, as long as those have room."""
    DRAINED = "drained"
    """It was drained, and no session is left on it. It may be switched off."""
    CLOSED = "closed"
    """It gets no new worker, by somebody's order to the engine; those that it has stay."""
    LOST = "lost"
    """It does not answer. Its workers may still run, so each is replaced only after its fence."""


@dataclass(frozen=True, slots=True)
class WorkerNode:
    """A node as its engine knows it: ready, closed or lost."""

    name: str
    state: NodeState
    address: str
    memory_bytes: int
    worker_slots: int
    """How many workers the engine would place there."""


def slots_in(memory_bytes: int) -> int:
    """Return how many workers fit into a node's memory, as engines count."""
    return memory_bytes // RESERVED_BYTES


def state_of(node: WorkerNode, *, is_drained: bool, sessions: int) -> NodeState:
    """Return a node's state; `is_drained` says that an operator asked for it, `sessions` how many are left."""
    if node.state is NodeState.LOST or not is_drained:
        return node.state
    return NodeState.DRAINING if sessions else NodeState.DRAINED


def room_of(nodes: Iterable[WorkerNode], drained: Iterable[str], used: Mapping[str, int]) -> int:
    """Return how many workers more the nodes take that are ready and not drained."""
    closed = frozenset(drained)
    takers = [each for each in nodes if each.state is NodeState.READY and each.name not in closed]
    return sum(max(0, each.worker_slots - used.get(each.name, 0)) for each in takers)


def next_moves(sessions: Sequence[str], *, moving: int, room: int) -> Sequence[str]:
    """Return which sessions leave their drained node now; `moving` ones have left and are not connected again yet.

    A session that finds no room elsewhere stays where it is: better there than nowhere.
    """
    return sessions[: max(0, min(MOVES_AT_ONCE, room) - moving)]
