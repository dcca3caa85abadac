"""Routes of one-time links: somebody elsewhere links one session, without a login."""

from typing import Literal

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import scan_link
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.sessions.reads import MISSING, SessionId, find
from wa_orchestrator.settings.types import Language
from wa_orchestrator.store.sessions import scan_links
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import LimitedOperator
from wa_orchestrator.web.models import OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_MINUTE_MS = 60_000


class ScanLinkBody(RequestModel):
    """A link to make."""

    minutes: int = Field(
        scan_link.WINDOW_MS // _MINUTE_MS,
        ge=1,
        le=scan_link.LONGEST_MS // _MINUTE_MS,
        description="Minutes until it expires unopened. After a code was asked for, it expires in ten minutes.",
    )
    language: Language | None = Field(None, description="Language of the page. Default: the visitor's own.")


class CreatedScanLink(ResponseModel):
    """The link. Everybody who has it can link a phone to this session: give it to that person only."""

    session_id: str
    link: str = Field(description="It cannot be shown again.", examples=["https://wa.example.com/l/worker_1.Zm9v"])
    expires_at: OptionalTimestamp


class WithdrawnScanLink(ResponseModel):
    """The link no longer works."""

    withdrawn: Literal[True] = True


class ScanLinkRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        path = "/{session_id}/scan-link"
        made = responses(NO_SUCH_SESSION=404, ALREADY_LINKED=409)
        self.post(path, status_code=201, responses=made)(self.create_scan_link)
        self.delete(path, responses=MISSING)(self.withdraw_scan_link)

    async def create_scan_link(
        self, session_id: SessionId, caller: LimitedOperator, body: ScanLinkBody | None = None
    ) -> CreatedScanLink:
        """Make a one-time link to this session's code, for a phone that is elsewhere. It replaces one before."""
        session = await find(self._context, session_id, caller.reach)
        if session.status in (State.CONNECTED, State.DISCONNECTED):
            raise Refused("ALREADY_LINKED", f"Session {session_id} is linked already. Log it out first.", 409)
        body = body or ScanLinkBody.model_validate({})
        token, link = await scan_links.make(
            self._scripts,
            session_id,
            asker=self._settings.operator_name,
            language=body.language or "",
            life_ms=body.minutes * _MINUTE_MS,
        )
        await self._audit(caller, "session.scan_link", session_id, minutes=body.minutes)
        address = f"{self._settings.public_base_url}/l/{token}"
        return CreatedScanLink(session_id=session_id, link=address, expires_at=iso(link.expires_at))

    async def withdraw_scan_link(self, session_id: SessionId, caller: LimitedOperator) -> WithdrawnScanLink:
        """Withdraw a session's link. May be repeated."""
        await find(self._context, session_id, caller.reach)
        await scan_links.withdraw(self._scripts, session_id)
        await self._audit(caller, "session.scan_link_withdrawn", session_id)
        return WithdrawnScanLink()
