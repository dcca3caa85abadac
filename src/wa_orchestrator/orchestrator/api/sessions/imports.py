"""Routes that bring sessions in: linked devices of other programs, and lists of sessions to create."""

from typing import Annotated, Final

from pydantic import Field, ValidationError

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import baileys_account, session_list
from wa_orchestrator.domain.sessions.baileys_account import BaileysAccount
from wa_orchestrator.domain.sessions.session_list import ListedSession
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.sessions.changes import PROVISION, ProvisionBody, provision, request_of
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.sessions import provision as provisioning
from wa_orchestrator.orchestrator.sessions import session_import
from wa_orchestrator.settings import validation_messages
from wa_orchestrator.web.auth import OperateCaller
from wa_orchestrator.web.keyed_route import longest_body
from wa_orchestrator.web.models import OptionalText, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

#: An account that has talked to ten thousand people has about 20 MB of keys.
MAX_ACCOUNT_BYTES: Final = 64_000_000
_MAX_LIST_BYTES: Final = 2_000_000
_FileName = Annotated[str, Field(max_length=255)]


class ImportBody(ProvisionBody):
    """A linked device of another program on Baileys, and the session that it becomes."""

    files: dict[_FileName, str] | None = Field(
        None,
        max_length=200_000,
        description="The files of `useMultiFileAuthState` by name, `creds.json` among them. Others are left out.",
    )
    document: str | None = Field(None, description="Or one exported JSON document: `creds`, and the keys beside it.")
    dry_run: bool = Field(False, description="Check it and say what was found; create nothing.")
    old_place_is_off: bool = Field(
        False, description="Nothing else runs this device any more: two with one device push each other off WhatsApp."
    )


class ImportedAccount(ResponseModel):
    """What was found, and the session that it became."""

    session_id: OptionalText = Field(description="Null for a dry run: nothing was created.")
    phone: str = Field(examples=["972501234567"])
    device: int = Field(description="Its number among the phone's linked devices.")
    name: OptionalText
    keys: dict[str, int] = Field(description="How many keys of each type it has.", examples=[{"pre-key": 812}])
    same_phone: list[str] = Field(description="Sessions here that have this phone already.")


class SessionFile(RequestModel):
    """Sessions to create, as a file."""

    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=400_000,
            description="CSV whose first line names the columns: id, phone, label, tags (several by `|`), proxy, "
            "pairing, timezone, presence.",
            examples=["id,phone,label,tags\nnorth,972501234567,Haifa,vip|north\n"],
        ),
    ]
    dry_run: bool = Field(False, description="Check the lines; create nothing.")


class RefusedImport(ResponseModel):
    """A line that was refused."""

    line: int
    code: str
    message: str


class ImportedSessions(ResponseModel):
    """What became of the lines of a file."""

    created: list[str]
    lines: int = Field(description="Lines with a session.")
    errors: list[RefusedImport]


class SessionImportRoutes(RouteGroup):
    def __init__(self, context: Context, proxy_health: ProxyHealth) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        self._proxy_health = proxy_health
        refusals = responses(
            IMPORT_ALREADY_HERE=409, OLD_PLACE_RUNS=409, IMPORT_NO_CREDENTIALS=422, IMPORT_DAMAGED=422,
            IMPORT_NOT_LINKED=422,
        )  # fmt: skip
        self.post("/import", status_code=201, responses=PROVISION | refusals)(self.import_account)
        self.post("/import-list", responses=responses(NO_HEADING=422, TOO_MANY_LINES=422))(self.import_sessions)

    @longest_body(MAX_ACCOUNT_BYTES)
    async def import_account(self, body: ImportBody, caller: OperateCaller) -> ImportedAccount:
        """Take over a linked device of another program on Baileys, without a scan.

        It is checked completely first; anything wrong refuses it, and nothing is changed. Its trust begins anew.
        """
        account = _account(body)
        siblings: list[str] = [each.id for each in await session_import.same_phone(self._context, account)]
        if body.dry_run:
            return _view(account, siblings)
        if not body.old_place_is_off:
            text = "Stop the old program, then say so. Do not log out there: that would unlink the device."
            raise Refused("OLD_PLACE_RUNS", text, 409)
        wanted = await request_of(self._context, body)
        if wanted.proxy is not None:
            await provisioning.require_reachable(self._context, wanted.proxy, self._proxy_health.probe)
        session = await session_import.take_over(self._context, account, wanted)
        await self._audit(caller, "session.import", session.id, label=session.label, keys=sum(account.keys.values()))
        return _view(account, siblings, session.id)

    @longest_body(_MAX_LIST_BYTES)
    async def import_sessions(self, body: SessionFile, caller: OperateCaller) -> ImportedSessions:
        """Create the sessions of a file. Lines are refused one by one; the others are created."""
        listed = session_list.read(body.text)
        created: list[str] = []
        errors: list[RefusedImport] = []
        for each in listed:
            try:
                wanted = ProvisionBody.model_validate(each.fields)
                if body.dry_run:
                    await request_of(self._context, wanted)
                else:
                    created.append((await provision(self._context, wanted, self._proxy_health)).id)
            except ValidationError as error:
                errors += [_invalid(each, error)]
            except Refused as error:
                errors.append(RefusedImport(line=each.line, code=error.code, message=error.text))
        if not body.dry_run:
            await self._audit(caller, "session.import_list", f"{len(created)} created", errors=len(errors))
        return ImportedSessions(created=created, lines=len(listed), errors=errors)


def _view(account: BaileysAccount, same_phone: list[str], session_id: str = "") -> ImportedAccount:
    return ImportedAccount.of(account, session_id=session_id, keys=dict(account.keys), same_phone=same_phone)


def _account(body: ImportBody) -> BaileysAccount:
    if body.document is not None:
        return baileys_account.read_document(body.document)
    return baileys_account.read(body.files or {})


def _invalid(listed: ListedSession, error: ValidationError) -> RefusedImport:
    """Say what is wrong with the first bad cell, without repeating it: it may be a proxy with its password."""
    first = error.errors()[0]
    text = f"{first['loc'][0]}: {validation_messages.phrase(first)}"
    return RefusedImport(line=listed.line, code="VALIDATION_FAILED", message=text)
