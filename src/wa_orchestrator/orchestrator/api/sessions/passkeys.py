"""Routes of linking with a passkey: what WhatsApp asks, the person's answer, and the comparison of codes.

For administrators only. An answer approves one device; it is used once, and neither stored nor logged.
"""

from typing import Literal

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import passkey
from wa_orchestrator.domain.sessions.passkey import LONGEST_ANSWER, Assertion
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.sessions.reads import MISSING, SessionId, find
from wa_orchestrator.orchestrator.workers import command_calls
from wa_orchestrator.store.sessions import passkeys
from wa_orchestrator.store.sessions.passkeys import PasskeyCeremony
from wa_orchestrator.texts import catalogue
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.models import OptionalText, OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_WITHIN_S = 45.0
_ERRORS = MISSING | responses(
    NO_PASSKEY_ASKED=404, PASSKEY_MALFORMED=400, PASSKEY_OTHER_SITE=400, PASSKEY_OLD_REQUEST=409,
    PASSKEY_NOT_VERIFIED=400, PASSKEY_USED=409, WORKER_SILENT=503,
)  # fmt: skip


class PasskeyView(ResponseModel):
    """How far a session's linking by passkey is."""

    session_id: str
    stage: Literal["required", "sent", "confirm", "pairing", "failed"]
    options: OptionalText = Field(None, description="WhatsApp's request, as JSON for `navigator.credentials.get`.")
    expires_at: OptionalTimestamp = Field(
        None, description="When this stage ends by itself: of WhatsApp's request, the phone's answer, the comparison."
    )
    code: OptionalText = Field(None, description="The phone shows the same one.", examples=["PYSL-SH11"])
    compare: bool = Field(False, description="Whether a person must compare the codes and confirm.")
    reason: OptionalText = Field(None, examples=["rejected"])
    retry: OptionalText = Field(None, description="`same`, `new` or `restart`: what a further try needs.")


class PasskeyAnswer(RequestModel):
    """The credential that the browser gave on WhatsApp's own site, as JSON or as base64url of it."""

    answer: str = Field(min_length=2, max_length=LONGEST_ANSWER)


def view(session_id: str, ceremony: PasskeyCeremony) -> PasskeyView:
    return PasskeyView.of(
        ceremony,
        session_id=session_id,
        options=ceremony.options if ceremony.stage == "required" else None,
        expires_at=ceremony.expires_at_ms,
        compare=ceremony.stage == "confirm" and not ceremony.auto,
    )


class PasskeyRoutes(RouteGroup):
    """Routes `/api/sessions/{session_id}/passkey`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        one = "/{session_id}/passkey"
        self.get(one, responses=_ERRORS)(self.get_passkey_request)
        self.post(one, responses=_ERRORS)(self.answer_passkey)
        self.post(f"{one}/confirm", responses=_ERRORS)(self.confirm_passkey)

    async def get_passkey_request(self, session_id: SessionId, _caller: AdminCaller) -> PasskeyView:
        """Get what WhatsApp asks before it links this session, and how far that is."""
        return view(session_id, await self._ceremony(session_id))

    async def answer_passkey(self, session_id: SessionId, caller: AdminCaller, body: PasskeyAnswer) -> PasskeyView:
        """Give the owner's assertion. It is checked first; what fails the check is not used up."""
        ceremony = await self._ceremony(session_id)
        challenge = passkey.challenge_of(ceremony.options)
        checked = passkey.check(body.answer, challenge)
        if not isinstance(checked, Assertion):
            status = 409 if checked is passkey.Problem.OLD_REQUEST else 400
            raise Refused(checked, catalogue.text(catalogue.DEFAULT, f"error.{checked}"), status)
        if ceremony.stage != "required" or not await passkeys.use(self._scripts, session_id, challenge):
            text = "This request was answered already. Wait for WhatsApp, or start again with a new code."
            raise Refused("PASSKEY_USED", text, 409)
        await self._audit(caller, "session.passkey", session_id)
        await command_calls.call(self._context, session_id, "passkey", timeout_s=_WITHIN_S, assertion=checked.text)
        return view(session_id, await self._ceremony(session_id))

    async def confirm_passkey(self, session_id: SessionId, caller: AdminCaller) -> PasskeyView:
        """Confirm that the phone shows the same code."""
        await self._ceremony(session_id)
        await self._audit(caller, "session.passkey_confirm", session_id)
        await command_calls.call(self._context, session_id, "passkey", timeout_s=_WITHIN_S)
        return view(session_id, await self._ceremony(session_id))

    async def _ceremony(self, session_id: str) -> PasskeyCeremony:
        session = await find(self._context, session_id)
        ceremony = await passkeys.get(self._scripts, session_id)
        if ceremony is None or ceremony.epoch != session.epoch:
            text = f"WhatsApp does not ask for a passkey for session {session_id} now. Scan or enter its code first."
            raise Refused("NO_PASSKEY_ASKED", text, 404)
        return ceremony
