"""Routes for administrators: the audit log, the trash, and the address of the simulator."""

from typing import Annotated, Literal

from fastapi import Query, Response
from pydantic import Field

from wa_orchestrator import audit_log
from wa_orchestrator.audit_log import Cut
from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.audit_chain import BrokenChain, Damage, Intact
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.contacts import JsonLines
from wa_orchestrator.orchestrator.api.sessions import changes
from wa_orchestrator.orchestrator.sessions import credential_files, provision
from wa_orchestrator.orchestrator.sessions.credential_files import TrashedCredentials
from wa_orchestrator.store import records
from wa_orchestrator.store.access import audit
from wa_orchestrator.store.sessions import control_plane
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.ids import TrashId
from wa_orchestrator.web.models import NextCursor, OptionalText, OptionalTimestamp, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup


class AuditEntry(ResponseModel):
    """Something that an operator did."""

    cursor: str
    at: OptionalTimestamp
    by: str = Field(description="The id of the key or of the person; `dashboard:<name>` without an account.")
    name: str = Field("", description="What the key or the person was called then.")
    action: str = Field(examples=["session.restart"])
    target: str = Field(examples=["worker_1"])
    details: str = Field(description="A JSON object; secrets are hidden.")
    number: int = Field(0, description="Its line in the file; 0 for entries of earlier versions.")
    hash: str = Field("", description="The hash of its line, which the next line repeats.")


class AuditPage(ResponseModel):
    """A page of the audit log, the newest first."""

    entries: list[AuditEntry]
    next: NextCursor


class AuditVerification(ResponseModel):
    """Whether the audit log is whole."""

    intact: bool
    entries: int = Field(description="Lines up to the first fault.")
    damage: Damage | Literal["CUT"] | None = Field(description="What is wrong with the line after these.")
    hash: str | None = Field(description="Of the last line. Keep it elsewhere: it proves all lines before.")


class TrashItem(ResponseModel):
    """Credentials that can be restored."""

    id: str
    session_id: str
    phone: OptionalText
    label: OptionalText
    why: str
    discarded_at: OptionalTimestamp


class TrashResponse(ResponseModel):
    """The trash, the newest first."""

    trash: list[TrashItem]


class RestoredSession(ResponseModel):
    """The session that has its credentials back."""

    session_id: str
    restored: Literal[True] = True


class SimulatorAddresses(ResponseModel):
    """Where the simulated WhatsApp is."""

    control: str = Field(description="The URL of its control API.")
    ca_file: str = Field(description="The certificate that its servers are signed with.")
    proxies: list[str] = Field(description="The URLs of its proxies, with passwords.")
    telegram: str = Field(description="The URL of its Telegram API.")


class AdminRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1", "administration")
        restore = responses(NOT_IN_TRASH=404, NO_PROXY_CAPACITY=409, PHONE_FULL=409)
        self.get("/audit")(self.list_audit_entries)
        self.get("/audit/verification")(self.verify_audit)
        self.get("/audit/export", response_class=JsonLines)(self.export_audit)
        self.get("/trash")(self.list_trash)
        self.post("/trash/{trash_id}/restore", responses=restore)(self.restore_from_trash)
        self.get("/simulator", responses=responses(NO_SIMULATOR=404))(self.get_simulator)

    async def list_audit_entries(
        self,
        *,
        _caller: AdminCaller,
        before: Annotated[
            str | None, Query(pattern=r"^[0-9]{1,16}-[0-9]{1,10}$", description="`next` of the page before.")
        ] = None,
        limit: paging.Limit = 100,
    ) -> AuditPage:
        """List what operators did, the newest first."""
        found = await audit.read(self._scripts, before=before, most=limit)
        entries = [{**each.fields, "cursor": each.cursor, "at": int(each.fields["at"])} for each in found]
        following = found[-1].cursor if len(found) == limit else None
        return AuditPage.model_validate({"entries": entries, "next": following})

    async def verify_audit(self, _caller: AdminCaller) -> AuditVerification:
        """Check every line of the audit log."""
        match await audit_log.verify(self._context):
            case Intact(last):
                return AuditVerification(intact=True, entries=last.number, damage=None, hash=last.hash)
            case Cut(last):
                return AuditVerification(intact=False, entries=last.number, damage="CUT", hash=last.hash)
            case BrokenChain(line, damage):
                return AuditVerification(intact=False, entries=line - 1, damage=damage, hash=None)

    async def export_audit(self, caller: AdminCaller) -> Response:
        """Export the audit log as JSON lines, the oldest first; the export is itself an entry."""
        await self._audit(caller, "audit.export", "")
        found = audit_log.lines(audit_log.path_of(self._context))
        return JsonLines(f"{line}\n" for line in found)

    async def list_trash(self, _caller: AdminCaller) -> TrashResponse:
        """List credentials that can be restored."""
        found = credential_files.list_trash(self._settings)
        return TrashResponse(trash=[TrashItem.of(each, discarded_at=each.at_ms) for each in found])

    async def restore_from_trash(self, trash_id: TrashId, caller: AdminCaller) -> RestoredSession:
        """Restore credentials; a deleted session is created again."""
        found = credential_files.find(self._settings, trash_id)
        session = await records.session(self._scripts, found.session_id)
        if session is None:
            await self._create_again(found)
        else:
            await changes.restore(self._context, found)
        await self._audit(caller, "trash.restore", trash_id)
        return RestoredSession(session_id=found.session_id)

    async def _create_again(self, found: TrashedCredentials) -> None:
        """Create the session. Its record names the credentials from the start, so its worker waits for them."""
        credential_files.require_none(self._settings, found.session_id)
        wanted = provision.SessionRequest(found.phone, None, found.session_id, found.label, restore=found.id)
        await provision.provision(self._context, wanted)
        await control_plane.request_attention(self._scripts, found.session_id)

    async def get_simulator(self, _caller: AdminCaller) -> SimulatorAddresses:
        """Get the addresses of the simulated WhatsApp."""
        if self._context.simulator is None:
            raise Refused("NO_SIMULATOR", "This server runs without a simulator. Start it with --simulate.", 404)
        return SimulatorAddresses(**self._context.simulator)
