"""Node watch: stores the list of nodes for the pages, and moves sessions away from drained ones."""

from collections import Counter
from collections.abc import Sequence

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers import nodes as domain_nodes
from wa_orchestrator.domain.workers.nodes import NodeState
from wa_orchestrator.orchestrator.sessions import relocation, transitions
from wa_orchestrator.orchestrator.workers import node_table
from wa_orchestrator.orchestrator.workers.node_table import NodeRow
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.runner.contract import PlacingRunner
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import nodes as stored_nodes

_EVERY_S, _WHILE_DRAINING_S = 5.0, 0.5
#: A session that is not back by then is not waited for: the others must leave, too.
AWAY_AT_MOST_MS = 60_000

log = structlog.get_logger(__name__)


class NodeWatch:
    """Only the leader runs it. What is drained is recorded, so the next leader goes on."""

    def __init__(self, context: Context, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool
        self._vacated: set[str] = set()

    async def step(self) -> float:
        """Look at the nodes once. Return the seconds until the next look."""
        runner = self._pool.runner
        if not isinstance(runner, PlacingRunner):
            return _EVERY_S
        nodes = await node_table.note_nodes(self._context, runner)
        drained = await stored_nodes.drained(self._context.scripts)
        self._vacated &= drained
        if not drained:
            return _EVERY_S
        sessions = await records.sessions(self._context.scripts)
        rows = node_table.rows(nodes, drained, sessions)
        away = await self._away(sessions)
        for row in rows:
            await self._close(runner, row, away)
        await self._move_next(rows, sessions, away)
        return _WHILE_DRAINING_S if away or any(row.state is NodeState.DRAINING for row in rows) else _EVERY_S

    async def _away(self, sessions: Sequence[Session]) -> Sequence[Session]:
        """Return the sessions that are on their way to another node."""
        now = await self._context.scripts.now_ms()
        moving = [each for each in sessions if each.move_epoch is not None]
        return [each for each in moving if transitions.move_pending(each) or abs(now - each.moved_at) < AWAY_AT_MOST_MS]

    async def _close(self, runner: PlacingRunner, row: NodeRow, away: Sequence[Session]) -> None:
        """Close a drained node, also if the process that was asked to died, and finally let what is left on it go.

        Not while sessions log in that have left it: a relay that moves meanwhile breaks their connections.
        """
        name = row.node.name
        is_left = row.state is NodeState.DRAINED and not any(each.moved_from == name for each in away)
        is_empty = is_left and name not in self._vacated
        must_close = row.is_drained and row.node.state is NodeState.READY
        if not (is_empty or must_close) or name not in await stored_nodes.drained(self._context.scripts):
            return  # or it was activated since
        if must_close:
            await runner.close_node(name)
        if is_empty:
            await runner.vacate_node(name)
            self._vacated.add(name)
            log.info("node.drained", node=name)

    async def _move_next(self, rows: Sequence[NodeRow], sessions: Sequence[Session], away: Sequence[Session]) -> None:
        leaving: dict[str, Session] = {
            each.id: each for row in rows if row.state is NodeState.DRAINING for each in row.sessions
        }
        waiting = sorted(leaving.keys() - {each.id for each in away})
        used = Counter(each.node for each in sessions if each.node)
        room = domain_nodes.room_of([row.node for row in rows], [row.node.name for row in rows if row.is_drained], used)
        for session_id in domain_nodes.next_moves(waiting, moving=len(away), room=room):
            log.info("session.leaves_node", session=session_id, node=leaving[session_id].node)
            await relocation.request(self._context, leaving[session_id])
