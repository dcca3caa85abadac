"""Nodes with the sessions on them, for the API, the pages and the drain."""

import os
import socket
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.domain.workers import nodes as domain_nodes
from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode, slots_in
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.runner.contract import PlacingRunner, Runner
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import nodes as stored_nodes

#: Lost first, then those that somebody drains, then the others, the fullest first.
_ORDER = (NodeState.LOST, NodeState.DRAINING, NodeState.CLOSED, NodeState.READY, NodeState.DRAINED)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node, and the sessions whose workers run there or did when it was lost."""

    node: WorkerNode
    is_drained: bool
    sessions: tuple[Session, ...]
    moved: int
    """How many have left it since it is drained."""

    @property
    def state(self) -> NodeState:
        return domain_nodes.state_of(self.node, is_drained=self.is_drained, sessions=len(self.sessions))

    @property
    def connected(self) -> int:
        return sum(each.status is State.CONNECTED for each in self.sessions)

    @property
    def worker_bytes(self) -> int:
        """The memory of its workers, as each last reported it."""
        return sum(each.ping_rss_bytes for each in self.sessions)

    @property
    def heard_at(self) -> int:
        """When one of its workers was last heard; 0 if none ever was."""
        return max((each.last_ping_at for each in self.sessions), default=0)


def this_machine() -> WorkerNode:
    """Return the only node of a runner that has one: the machine that the server runs on."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return WorkerNode(socket.gethostname(), NodeState.READY, "", memory, slots_in(memory))


def rows(nodes: Iterable[WorkerNode], drained: Collection[str], sessions: Iterable[Session]) -> list[NodeRow]:
    """Return the nodes with their sessions."""
    there: dict[str, list[Session]] = defaultdict(list)
    left: dict[str, int] = defaultdict(int)
    for session in sessions:
        if transitions.wants_worker(session) and not session.removing:
            there[session.node].append(session)
        left[session.moved_from] += session.moved_from not in ("", session.node)
    found = [
        NodeRow(each, each.name in drained, tuple(there[each.name]), left[each.name] if each.name in drained else 0)
        for each in nodes
    ]
    return sorted(found, key=lambda row: (_ORDER.index(row.state), -len(row.sessions), row.node.name))


async def read(context: Context, runner: Runner) -> list[NodeRow]:
    """Ask the engine for its nodes, and return them with their sessions."""
    if not isinstance(runner, PlacingRunner):
        alone = this_machine()
        here = [each for each in await records.sessions(context.scripts) if transitions.wants_worker(each)]
        return [NodeRow(alone, is_drained=False, sessions=tuple(here), moved=0)]
    nodes = await note_nodes(context, runner)
    return rows(nodes, await stored_nodes.drained(context.scripts), await records.sessions(context.scripts))


async def note_nodes(context: Context, runner: PlacingRunner) -> Sequence[WorkerNode]:
    """Ask the engine for its nodes, and store the answer for the pages."""
    nodes = await runner.nodes()
    await stored_nodes.note(context.scripts, nodes)
    return nodes
