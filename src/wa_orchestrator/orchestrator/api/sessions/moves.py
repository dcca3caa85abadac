"""Route that moves a session to another node."""

import asyncio
import time
from typing import Annotated

from fastapi import Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers.nodes import NodeState
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.nodes import find_node, require_places
from wa_orchestrator.orchestrator.api.sessions.reads import SessionId, SessionMove, find, move_of
from wa_orchestrator.orchestrator.sessions import relocation, transitions
from wa_orchestrator.orchestrator.workers import node_table
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.web.auth import OperateCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_LOOK_AGAIN_S = 0.1
_REFUSALS = responses(
    NO_SUCH_SESSION=404, NO_SUCH_NODE=404, ONE_NODE=409, CREDENTIALS_STAY=409, NODE_NOT_READY=409, ALREADY_THERE=409,
    NOT_RUNNING=409,
)  # fmt: skip


class MoveBody(RequestModel):
    """Where a session goes."""

    to: str = Field(min_length=1, max_length=253, examples=["node-2"], description="A node of GET /api/v1/nodes.")


class SessionMoveRoutes(RouteGroup):
    def __init__(self, context: Context, pool: WorkerPool) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        self._pool = pool
        self.post("/{session_id}/move", status_code=202, responses=_REFUSALS)(self.move_session)

    async def move_session(
        self,
        session_id: SessionId,
        body: MoveBody,
        caller: OperateCaller,
        wait: Annotated[int, Query(ge=0, le=60, description="Seconds to wait until it is connected again.")] = 0,
    ) -> SessionMove:
        """Move a session to another node; it stays linked, and its messages wait meanwhile.

        Its worker ends by itself first, so that the server has its newest credentials. If it cannot start there, it
        starts where the engine finds room.
        """
        session = await find(self._context, session_id)
        require_places(self._pool)
        if self._settings.credentials != "server":
            text = "A worker elsewhere would not have this session's credentials. Start the server with"
            raise Refused("CREDENTIALS_STAY", f"{text} CREDENTIALS=server.", 409)
        await self._require_ready(body.to)
        if not transitions.wants_worker(session):
            raise Refused("NOT_RUNNING", f"Session {session_id} has no worker to move. Start it first.", 409)
        if session.node == body.to and not transitions.move_pending(session):
            raise Refused("ALREADY_THERE", f"Session {session_id} runs on {body.to} already.", 409)
        asked = await relocation.request(self._context, session, body.to)
        await self._audit(caller, "session.move", session_id, node=body.to, node_before=session.node)
        if wait and asked is not None:
            await self._returned(session_id, wait)
        return move_of(await find(self._context, session_id))

    async def _require_ready(self, name: str) -> None:
        found = {row.node.name: row for row in await node_table.read(self._context, self._pool.runner)}
        if (state := find_node(found, name).state) is not NodeState.READY:
            raise Refused("NODE_NOT_READY", f"Node {name} is {state}. Choose one that is ready.", 409)

    async def _returned(self, session_id: str, within_s: int) -> None:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if (await find(self._context, session_id)).move_epoch is None:
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
