"""Routes that change sessions; `session_reads` has the others."""

import asyncio
import time
from typing import Annotated, Literal

from fastapi import Query
from pydantic import AliasChoices, Field, field_validator

from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone as phones
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.sessions.session import Event, Reason, State
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.api.sessions.reads import ID, MISSING, SessionId, find
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.sessions import credential_files, session_start, transitions
from wa_orchestrator.orchestrator.sessions import provision as provisioning
from wa_orchestrator.orchestrator.sessions.credential_files import TrashedCredentials
from wa_orchestrator.orchestrator.workers import command_calls
from wa_orchestrator.store import proxies, records, sessions
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import control_plane, link_codes
from wa_orchestrator.store.sessions.labels import labels_of
from wa_orchestrator.store.sessions.link_codes import StoredLinkCode
from wa_orchestrator.web.auth import Caller, LimitedOperator, OperateCaller
from wa_orchestrator.web.models import OptionalTimestamp, RequestModel, ResponseModel, TagNames, TimezoneName
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_REMOVED_WITHIN_S = 15.0
_CODE_WITHIN_S = 20.0
_REPORTED_WITHIN_S = 5.0


PresenceMode = Literal["always", "while_sending", "never"]
PRESENCE = (
    "When its device is shown as online. `always`: the owner's phone does not ring for messages. `while_sending`: it "
    "rings except around a message. `never`: it always rings, and nobody sees the session type. Default: `PRESENCE`."
)


class ProvisionBody(RequestModel):
    """A session to create; every field is optional."""

    phone: str | None = Field(None, examples=["972501234567"], description="8 to 15 digits, with the country code.")
    proxy: str | None = Field(
        None,
        validation_alias=AliasChoices("proxy", "proxyOverride"),
        examples=["socks5h://user:password@proxy.example.com:1080"],
        description="`socks5h://` only. It is added to the pool and bound to the phone.",
    )
    session_id: str | None = Field(None, pattern=ID, examples=["branch-tel-aviv"], description="Default: `worker_<n>`.")
    label: str | None = Field(
        None, max_length=100, examples=["support"], description="Its name, and a group for holds."
    )
    tags: TagNames = Field([], description="Groups it belongs to, for filters, holds, keys and webhooks.")
    profile: Annotated[str, Field(min_length=1, max_length=60)] | None = Field(
        None,
        examples=["Windows/Edge/120.0"],
        description="Its name under linked devices, a profile of `GET /api/v1/inventory`. It never changes.",
    )
    pairing: Literal["qr", "code"] = Field("qr", description="How the phone is linked: by QR code or by 8 characters.")
    timezone: TimezoneName | None = Field(None, description="Time zone of its hours and days. Default: `TIMEZONE`.")
    presence: PresenceMode | None = Field(None, description=PRESENCE)

    @field_validator("phone", "proxy", "label", mode="after")
    @classmethod
    def _stripped(cls, value: str | None) -> str | None:
        return value.strip() if value else value


class PresenceBody(RequestModel):
    """When a session's device is shown as online."""

    presence: PresenceMode | None = Field(description=PRESENCE)


class PairingBody(RequestModel):
    """The phone that will enter the code; optional when the session was provisioned for one."""

    phone: str | None = Field(None, examples=["972501234567"])


class PhoneBody(RequestModel):
    """The phone that the session may have from now on."""

    phone: str = Field(examples=["972501234567"], description="The session's `reportedPhone`.")


class StartBody(RequestModel):
    """The confirmation that a banned account is to log in again."""

    confirm: Literal["BANNED"] | None = Field(None, description="Needed when WhatsApp banned the account.")


class ProvisionedSession(ResponseModel):
    """The new session."""

    session_id: str = Field(examples=["worker_1"])
    status: State = Field(examples=["pending"])
    proxy: str | None = Field(
        description="Without the password.", examples=["socks5h://user:***@proxy.example.com:1080"]
    )


class PairingCode(ResponseModel):
    """The code to enter on the phone: Linked devices, Link with phone number."""

    session_id: str
    code: str = Field(examples=["ABCD1234"])
    expires_at: OptionalTimestamp


class ChangedSession(ResponseModel):
    """The session after the change; its worker may take a moment to follow."""

    session_id: str
    status: State
    reason: Reason | None


class DeletedSession(ResponseModel):
    """Whether the session is gone."""

    session_id: str
    deleted: bool = Field(description="False when its worker still has to stop; the session goes after that.")


_START = responses(NO_SUCH_SESSION=404, CONFIRMATION_REQUIRED=409)
_CONFIRM = responses(BAD_PHONE=400, NO_SUCH_SESSION=404, NOTHING_TO_CONFIRM=409)
PROVISION = responses(
    BAD_PHONE=400, BAD_PROXY_URL=400, SESSION_EXISTS=409, PHONE_FULL=409, PROXY_FULL=409, PROXY_BAD=409,
    PROXY_UNREACHABLE=409, CONFIRMATION_REQUIRED=409, STICKY_PROXY_FULL=409, NO_PROXY_CAPACITY=409,
    PHONE_NEEDED_FOR_CODE=422,
)  # fmt: skip
_PAIRING = responses(NO_SUCH_SESSION=404, ALREADY_LINKED=409, PHONE_NEEDED_FOR_CODE=422, NO_CODE_YET=503)


class SessionRoutes(RouteGroup):
    def __init__(self, context: Context, proxy_health: ProxyHealth) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        self._proxy_health = proxy_health
        one, no_trash = "/{session_id}", responses(NO_SUCH_SESSION=404, NOT_IN_TRASH=404)
        self.post("/provision", status_code=201, responses=PROVISION)(self.provision_session)
        self.post(f"{one}/pairing-code", responses=_PAIRING)(self.request_pairing_code)
        self.post(f"{one}/restart", responses=_START)(self.restart_session)
        self.post(f"{one}/stop", responses=MISSING)(self.stop_session)
        self.put(f"{one}/presence", responses=MISSING)(self.set_presence)
        self.post(f"{one}/start", responses=_START)(self.start_session)
        self.post(f"{one}/confirm-phone", responses=_CONFIRM)(self.confirm_phone)
        self.post(f"{one}/logout", responses=MISSING)(self.logout_session)
        self.delete(one, responses=MISSING)(self.delete_session)
        self.post(f"{one}/restore-credentials", responses=no_trash)(self.restore_credentials)

    async def provision_session(self, caller: OperateCaller, body: ProvisionBody | None = None) -> ProvisionedSession:
        """Create a session and queue its start."""
        body = body or ProvisionBody.model_validate({})
        session = await provision(self._context, body, self._proxy_health)
        await self._audit(caller, "session.provision", session.id, label=session.label, tags=session.tags)
        proxy = await records.proxy(self._scripts, session.proxy)
        return ProvisionedSession.of(session, session_id=session.id, proxy=proxy.masked if proxy else None)

    async def request_pairing_code(
        self, session_id: SessionId, caller: LimitedOperator, body: PairingBody | None = None
    ) -> PairingCode:
        """Request a code of 8 characters that links the phone instead of a QR code."""
        session = await find(self._context, session_id, caller.reach)
        phone = phones.parse(body.phone) if body and body.phone else session.phone
        if not phone:
            raise _phone_needed()
        if session.status == State.CONNECTED:
            raise Refused("ALREADY_LINKED", f"Session {session_id} is linked already. Log it out first.", 409)
        await self._audit(caller, "session.pairing_code", session_id)
        # A linked session has its phone until it is logged out.
        if not session.first_connected_at and await self._may_name(caller, phone):
            await sessions.update(self._scripts, session_id, SessionChanges(named_phone=phone))
        before = await link_codes.get(self._scripts, session_id)
        await command_calls.call(self._context, session_id, "pairing_code", timeout_s=_CODE_WITHIN_S, phone=phone)
        return await self._next_code(session_id, before)

    async def _may_name(self, caller: Caller, phone: str) -> bool:
        """Whether a caller may name a phone for a session, which then joins its other sessions on the worker's word.

        One that is limited to some sessions may where all of them are among those. That nobody has the phone is not
        enough: somebody else's session may link it before the worker reports it. Such a code links a new phone still.
        """
        if not caller.is_limited:
            return True
        owners = await records.sessions_of_phone(self._scripts, phone)
        return bool(owners) and all(caller.reach.includes(each.id, labels_of(each)) for each in owners)

    async def _next_code(self, session_id: str, before: StoredLinkCode | None) -> PairingCode:
        deadline = time.monotonic() + _CODE_WITHIN_S
        while time.monotonic() < deadline:
            code = await link_codes.get(self._scripts, session_id)
            if code is not None and code.code and code != before:
                return PairingCode.of(code, session_id=session_id, expires_at=code.expires_at_ms)
            await asyncio.sleep(0.1)
        raise Unavailable("NO_CODE_YET", "WhatsApp has not sent a code yet. Try again in a moment.", retryAfterS=5)

    async def restart_session(
        self, session_id: SessionId, caller: LimitedOperator, body: StartBody | None = None
    ) -> ChangedSession:
        """Replace the worker of a session; its credentials stay."""
        session = await self._confirmed(session_id, caller, body)
        await control_plane.forget_restarts(self._scripts, session_id)
        await transitions.request_restart(
            self._context, session, Event.RESTART_ASKED, SessionChanges(wanted=transitions.RUNNING)
        )
        return await self._done(caller, "session.restart", session_id, **_confirmation(session))

    async def set_presence(self, session_id: SessionId, caller: OperateCaller, body: PresenceBody) -> ChangedSession:
        """Set when a session's device is shown as online; a running worker is replaced by one that does so."""
        session = await find(self._context, session_id)
        await sessions.update(self._scripts, session_id, SessionChanges(presence=body.presence or ""))
        if session.status == State.CONNECTED:
            await transitions.request_restart(self._context, session, Event.RESTART_ASKED)
        return await self._done(caller, "presence.set", session_id, presence=body.presence or "")

    async def start_session(
        self, session_id: SessionId, caller: LimitedOperator, body: StartBody | None = None
    ) -> ChangedSession:
        """Start a stopped session."""
        session = await self._confirmed(session_id, caller, body)
        await session_start.start(self._context, session_id)
        return await self._done(caller, "session.start", session_id, **_confirmation(session))

    async def _confirmed(self, session_id: str, caller: Caller, body: StartBody | None) -> Session:
        """Return a session that may be started. That a banned one logs in again is for those who run the fleet."""
        session = await find(self._context, session_id, caller.reach)
        session_start.require_confirmation(session, body.confirm if body and not caller.is_limited else None)
        return session

    async def confirm_phone(self, session_id: SessionId, caller: OperateCaller, body: PhoneBody) -> ChangedSession:
        """Confirm the phone that a session reported and was not expected to have (`PHONE_CHANGED`).

        Its worker is replaced, and the session has that phone when the new one reports it again. To keep the phone it
        had, start it instead; to link another one, log it out.
        """
        session = await find(self._context, session_id)
        phone = phones.parse(body.phone)
        if session.reason is not Reason.PHONE_CHANGED or session.reported_phone != phone:
            text = f"Session {session_id} does not wait for a confirmation of this phone. Read its status again."
            raise Refused("NOTHING_TO_CONFIRM", text, 409)
        fields = SessionChanges(wanted=transitions.RUNNING, named_phone=phone)
        await transitions.request_restart(self._context, session, Event.RESTART_ASKED, fields)
        return await self._done(caller, "session.confirm_phone", session_id, phone=phone, before=session.phone)

    async def stop_session(self, session_id: SessionId, caller: LimitedOperator) -> ChangedSession:
        """Stop the worker of a session; its messages wait."""
        await find(self._context, session_id, caller.reach)
        fields = SessionChanges(wanted=transitions.STOPPED, move_epoch=None)
        await _request(self._context, session_id, Event.STOP_ASKED, fields)
        return await self._done(caller, "session.stop", session_id)

    async def logout_session(self, session_id: SessionId, caller: LimitedOperator) -> ChangedSession:
        """Unlink the device from its phone.

        A connected session is unlinked at WhatsApp too. In any state the credentials go to the trash, and a session
        that is not stopped shows a new code, also one that failed because its credentials cannot be read.
        """
        session = await find(self._context, session_id, caller.reach)
        if session.status == State.CONNECTED:
            asked = SessionChanges(logout_asked_at=await self._scripts.now_ms())
            await sessions.update(self._scripts, session_id, asked)
            await command_calls.call(self._context, session_id, "logout", timeout_s=_CODE_WITHIN_S)
        if session.status != State.CONNECTED or not await self._reported_logout(session):
            await transitions.request_restart(self._context, session, Event.LOGOUT_ASKED, SessionChanges(discard=True))
        return await self._done(caller, "session.logout", session_id)

    async def _reported_logout(self, before: Session) -> bool:
        """Wait for the worker's own report: acting on both would discard the credentials of the next worker too."""
        deadline = time.monotonic() + _REPORTED_WITHIN_S
        while time.monotonic() < deadline:
            session = await find(self._context, before.id)
            if session.epoch != before.epoch or session.reason == Reason.LOGGED_OUT:
                return True
            await asyncio.sleep(0.05)
        return False

    async def delete_session(
        self,
        session_id: SessionId,
        caller: OperateCaller,
        *,
        forget: Annotated[bool, Query(description="Also unbind the phone from its proxy.")] = False,
        queued: Annotated[
            Literal["cancel", "reroute"], Query(description="What becomes of its queued messages.")
        ] = "cancel",
    ) -> DeletedSession:
        """Delete a session; its phone stays bound to its proxy unless `forget` is set."""
        kept = "forget" if forget else "keep"
        fields = SessionChanges(removing=kept, removing_queued=queued, wanted=transitions.STOPPED)
        await _request(self._context, session_id, Event.STOP_ASKED, fields)
        await self._audit(caller, "session.delete", session_id, forget=forget, queued=queued)
        return DeletedSession(session_id=session_id, deleted=await self._gone(session_id))

    async def _gone(self, session_id: str) -> bool:
        deadline = time.monotonic() + _REMOVED_WITHIN_S
        while time.monotonic() < deadline:
            if await records.session(self._scripts, session_id) is None:
                return True
            await asyncio.sleep(0.05)
        return False

    async def restore_credentials(self, session_id: SessionId, caller: OperateCaller) -> ChangedSession:
        """Restore the newest credentials of a session from the trash."""
        await find(self._context, session_id)
        found = [each for each in credential_files.list_trash(self._settings) if each.session_id == session_id]
        if not found:
            text = f"The trash has no credentials of {session_id}. GET /api/v1/trash lists what it has."
            raise Refused("NOT_IN_TRASH", text, 404)
        await restore(self._context, found[0])
        return await self._done(caller, "session.restore_credentials", session_id)

    async def _done(self, caller: Caller, action: str, session_id: str, **details: str) -> ChangedSession:
        await self._audit(caller, action, session_id, **details)
        return ChangedSession.of(await find(self._context, session_id), session_id=session_id)


async def request_of(context: Context, body: ProvisionBody) -> provisioning.SessionRequest:
    """Return what a body asks for. Raises `Refused` if its phone or proxy cannot be one."""
    return provisioning.SessionRequest(
        phones.parse(body.phone) if body.phone else "",
        await proxies.recognized(context.scripts, proxy_url.parse(body.proxy)) if body.proxy else None,
        body.session_id or "",
        body.label or "",
        body.pairing,
        timezone=body.timezone or "",
        presence=body.presence or "",
        tags=tuple(body.tags),
        profile=body.profile or "",
    )


async def provision(context: Context, body: ProvisionBody, health: ProxyHealth) -> Session:
    """Create a session and queue its start. Raises `Refused`, with nothing changed, if that is not possible."""
    wanted = await request_of(context, body)
    if wanted.pairing == "code" and not wanted.phone:
        raise _phone_needed()
    if wanted.proxy is not None:
        await provisioning.require_reachable(context, wanted.proxy, health.probe)
    return await provisioning.provision(context, wanted)


async def restore(context: Context, found: TrashedCredentials) -> None:
    """Have a session restarted with credentials from the trash."""
    fields = SessionChanges(restore=found.id, wanted=transitions.RUNNING)
    await _request(context, found.session_id, Event.RESTART_ASKED, fields)


async def _request(context: Context, session_id: str, event: Event, fields: SessionChanges) -> None:
    """Write an operator's request to an existing session, and wake the loop that carries it out."""
    await find(context, session_id)
    await transitions.apply(context, session_id, event, fields)
    await control_plane.request_attention(context.scripts, session_id)


def _confirmation(session: Session) -> dict[str, str]:
    """Return what the audit log says about a start that had to be confirmed."""
    return {"confirmed": str(Reason.BANNED)} if session_start.is_banned(session) else {}


def _phone_needed() -> Refused:
    return Refused("PHONE_NEEDED_FOR_CODE", "Give `phone`, the phone that will enter the code.", 422)
