"""Routes of the store of credentials, for CREDENTIALS=server: a worker stores and fetches its own, sealed."""

from typing import Annotated, Final

from fastapi import Depends, Path, Query, Request, Response

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.sessions.reads import SessionId
from wa_orchestrator.orchestrator.api.workers.events import MAX_BYTES_PER_MINUTE
from wa_orchestrator.orchestrator.api.workers.outbox import BASE
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.sessions import stored_credentials
from wa_orchestrator.store.sessions.stored_credentials import CopyNeeded
from wa_orchestrator.web import request_body
from wa_orchestrator.web.held_bodies import HeldBodies
from wa_orchestrator.web.keyed_route import before_body, longest_body
from wa_orchestrator.web.route_group import RouteGroup

#: A copy of an account with thousands of chats has some megabytes.
MAX_COPY_BYTES: Final = 32 * 1024 * 1024
#: A worker sends a copy instead of a longer change.
MAX_CHANGE_BYTES: Final = 4 * 1024 * 1024
#: A worker sends a copy when its changes are as long as the one before. Redis' journal has each of them.
MAX_COPY_BYTES_PER_MINUTE: Final = 2 * MAX_COPY_BYTES
#: Copies in memory at once. Workers whose copy has to wait send it again.
ALL_COPIES_BYTES: Final = 8 * MAX_COPY_BYTES

Number = Annotated[int, Path(ge=1, lt=2**53)]


class WorkerCredentialRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, f"{BASE}/credentials", "workers")
        self.include_in_schema = False
        self._copies = HeldBodies(MAX_COPY_BYTES, ALL_COPIES_BYTES)
        self.dependencies.append(Depends(before_body(self._check_token, _no_dependency)))
        self.get("")(self.fetch)
        self.post("/copy/{number}")(self.put_copy)
        self.post("/changes/{number}")(self.add_change)

    async def _check_token(self, request: Request) -> None:
        """Check the token before the body is read, and count the request against the worker's rate."""
        session_id = str(request.path_params["session_id"])
        tokens.require_token(self._context, request, session_id)
        self._context.rates.require(f"worker {session_id}", self._settings.worker_rate_per_minute)

    async def fetch(
        self, request: Request, session_id: SessionId, known: Annotated[int | None, Query(ge=0)] = None
    ) -> Response:
        """Return what is stored; 204 if nothing is, or if the worker's directory has all of it.

        `known` is the epoch that opened the directory last. If that epoch stored last, everything that is stored was
        committed in that directory first.
        """
        session = await tokens.authenticate_worker(self._context, request, session_id)
        if known is not None and known == await stored_credentials.owner(self._scripts, session.id):
            return Response(status_code=204)
        found = await stored_credentials.read(self._scripts, session.id)
        if found is None:
            return Response(status_code=204)
        headers = {"X-Epoch": str(found.epoch), "X-First": str(found.first)}
        body = stored_credentials.framed([found.copy, *found.changes])
        return Response(body, headers=headers, media_type="application/octet-stream")

    @longest_body(MAX_COPY_BYTES)
    async def put_copy(self, request: Request, session_id: SessionId, number: Number) -> Response:
        """Store a whole copy."""
        session = await tokens.authenticate_worker(self._context, request, session_id)
        # Counted by what it declares, before it takes memory. One that declares nothing may be as long as any.
        amount = request_body.expected_bytes(request.scope, MAX_COPY_BYTES)
        with self._copies.holding(tokens.sender(session.id, session.epoch), amount):
            self._context.rates.require(f"worker copy {session_id}", MAX_COPY_BYTES_PER_MINUTE, amount=amount)
            body = await request_body.read(request, MAX_COPY_BYTES)
            outcome = await stored_credentials.put_copy(
                self._scripts, session.id, epoch=session.epoch, number=number, copy=_sealed(body)
            )
        if isinstance(outcome, Fenced):
            raise tokens.fenced(outcome.epoch)
        return Response(status_code=204)

    @longest_body(MAX_CHANGE_BYTES)
    async def add_change(self, request: Request, session_id: SessionId, number: Number) -> Response:
        """Store a change set after the one before it."""
        session = await tokens.authenticate_worker(self._context, request, session_id)
        amount = request_body.expected_bytes(request.scope, MAX_CHANGE_BYTES)
        with self._context.worker_bodies.holding(tokens.sender(session.id, session.epoch), amount):
            body = await request_body.read(request, MAX_CHANGE_BYTES)
            self._context.rates.require(f"worker bytes {session_id}", MAX_BYTES_PER_MINUTE, amount=len(body))
            outcome = await stored_credentials.add_change(
                self._scripts, session.id, epoch=session.epoch, number=number, change=_sealed(body)
            )
        match outcome:
            case Fenced(epoch):
                raise tokens.fenced(epoch)
            case CopyNeeded():
                raise Refused("COPY_NEEDED", "The change before this one is not stored; send a whole copy.", 409)
        return Response(status_code=204)


async def _no_dependency() -> None:
    """Carry a check for `before_body`."""


#: The mark of `worker/src/store/encryption-at-rest.ts` for what is sealed.
_SEALED: Final = 1


def _sealed(body: bytes) -> bytes:
    """Return a body that its worker has sealed: nothing else may lie in Redis."""
    if not body or body[0] != _SEALED:
        raise Refused("NOT_SEALED", "Credentials are stored only sealed; set AUTH_KEY.", 422)
    return body
