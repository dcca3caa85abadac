"""Routes of nodes: what runs where, and how a node is emptied and used again."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers.nodes import NodeState
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.workers import node_table
from wa_orchestrator.orchestrator.workers.node_table import NodeRow
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.runner.contract import PlacingRunner
from wa_orchestrator.store.sessions import nodes
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.models import OptionalText, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

NodeName = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,253}$", description="Its name.", examples=["node-2"])]
_REFUSALS = responses(NO_SUCH_NODE=404, ONE_NODE=409, LAST_NODE=409, NODE_LOST=409)


class NodeView(ResponseModel):
    """A machine that workers run on."""

    name: str = Field(examples=["node-2"])
    state: NodeState
    address: OptionalText
    sessions: int = Field(description="Sessions whose workers run there; of a lost node, those that are still missing.")
    connected: int = Field(description="Those of them that are connected.")
    moved: int = Field(description="While it is drained: how many have left it.")
    worker_slots: int = Field(description="How many workers the engine would place there.")
    memory_bytes: int
    worker_bytes: int = Field(description="What its workers use of the memory, by their last reports.")


class NodesResponse(ResponseModel):
    """All nodes: lost and draining ones first, then the fullest."""

    nodes: list[NodeView]
    can_move: bool = Field(description="Whether sessions can be moved: the runner has several nodes.")


class NodeRoutes(RouteGroup):
    def __init__(self, context: Context, pool: WorkerPool) -> None:
        super().__init__(context, "/api/v1/nodes", "nodes")
        self._pool = pool
        self.get("")(self.list_nodes)
        self.post("/{name}/drain", status_code=202, responses=_REFUSALS)(self.drain_node)
        self.post("/{name}/activate", responses=_REFUSALS)(self.activate_node)

    async def list_nodes(self, _caller: ReadCaller) -> NodesResponse:
        """List nodes with their memory, worker slots and sessions."""
        found = await node_table.read(self._context, self._pool.runner)
        return NodesResponse(nodes=[_view(row) for row in found], can_move=isinstance(self._pool.runner, PlacingRunner))

    async def drain_node(self, name: NodeName, caller: AdminCaller) -> NodeView:
        """Empty a node: it gets no new workers, and its sessions move to others, a few at a time.

        Each is away for some seconds and needs no new scan. Those for which the others have no room stay and go on.
        """
        runner = require_places(self._pool)
        found = await self._found()
        row = find_node(found, name)
        if row.state is NodeState.LOST:
            text = f"Node {name} does not answer; its sessions start elsewhere by themselves after FENCE_MS."
            raise Refused("NODE_LOST", text, 409)
        if not any(each.state is NodeState.READY for each in found.values() if each is not row):
            raise Refused("LAST_NODE", f"No other node is ready, so nothing can leave {name}. Add a node first.", 409)
        # Recorded first: a server that dies in between leaves a node that the leader closes and empties.
        await nodes.drain(self._scripts, name)
        await runner.close_node(name)
        await self._audit(caller, "node.drain", name, sessions=len(row.sessions))
        return await self._now(name)

    async def activate_node(self, name: NodeName, caller: AdminCaller) -> NodeView:
        """Use a node again: it gets workers as the engine sees fit, and nothing moves back by itself."""
        runner = require_places(self._pool)
        find_node(await self._found(), name)
        await nodes.activate(self._scripts, name)
        await runner.open_node(name)
        await self._audit(caller, "node.activate", name)
        return await self._now(name)

    async def _now(self, name: str) -> NodeView:
        return _view(find_node(await self._found(), name))

    async def _found(self) -> dict[str, NodeRow]:
        return {row.node.name: row for row in await node_table.read(self._context, self._pool.runner)}


def require_places(pool: WorkerPool) -> PlacingRunner:
    """Return the runner; raise `Refused` if all of its workers run on one machine."""
    if not isinstance(pool.runner, PlacingRunner):
        text = "All workers run on this machine. With RUNNER=swarm or RUNNER=kubernetes there are others to move to."
        raise Refused("ONE_NODE", text, 409)
    return pool.runner


def find_node(found: dict[str, NodeRow], name: str) -> NodeRow:
    if name not in found:
        raise Refused("NO_SUCH_NODE", f"There is no node {name}. GET /api/v1/nodes lists them.", 404)
    return found[name]


def _view(row: NodeRow) -> NodeView:
    counts = {"connected": row.connected, "moved": row.moved, "worker_bytes": row.worker_bytes}
    return NodeView.of(row.node, state=row.state, sessions=len(row.sessions), **counts)
