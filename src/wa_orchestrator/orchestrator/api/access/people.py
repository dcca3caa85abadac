"""Routes of people: accounts, the links with which they set a password, second factors, and logins."""

import secrets
from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access import permissions
from wa_orchestrator.domain.access.permissions import SCOPES, Role
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.access import logins, people
from wa_orchestrator.store.access.api_keys import digest
from wa_orchestrator.store.access.logins import ListedLogin
from wa_orchestrator.store.access.people import Account
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.models import LabelNames, OptionalText, OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

#: How long the link with which a person sets a password is valid.
LINK_S = 24 * 3600
PersonId = Annotated[str, Path(pattern=r"^a_[0-9a-f]{12}$", examples=["a_1a2b3c4d5e6f"])]
LoginId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", examples=["1a2b3c4d5e6f7081"])]
#: Printable, in one line: it is shown in the audit log.
PersonName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$")]


class PersonBody(RequestModel):
    """An account to create."""

    name: PersonName = Field(examples=["Dana"], description="They log in with it.")
    role: Role
    labels: LabelNames = Field([], description="They see only sessions with one of these labels or tags. None: all.")


class PersonChanges(RequestModel):
    """What to change about an account; what is missing stays. Its logins end."""

    role: Role | None = None
    labels: LabelNames | None = None


class PersonView(ResponseModel):
    """An account, without its secrets."""

    id: str = Field(examples=["a_1a2b3c4d5e6f"])
    name: str
    role: Role
    labels: list[str] = Field(description="They see only sessions with one of these labels or tags. None: all.")
    has_password: bool = Field(description="False until they have opened their link.")
    second_factor: bool
    created_at: OptionalTimestamp
    last_login_at: OptionalTimestamp


class PeopleResponse(ResponseModel):
    """All accounts, by name."""

    people: list[PersonView]


class InvitedPerson(PersonView):
    """An account, and the link with which its person sets a password."""

    link: str = Field(description="Valid once, for a day. It cannot be shown again.")


class DeletedPerson(ResponseModel):
    """The account is gone, and its logins have ended."""

    deleted: Literal[True] = True


class LoginView(ResponseModel):
    """Somebody who is logged in to the dashboard."""

    id: str
    person_id: OptionalText = Field(description="Null for a login with the installation's own password.")
    name: OptionalText
    role: Role
    address: OptionalText
    browser: OptionalText
    since: OptionalTimestamp


class LoginsResponse(ResponseModel):
    """All logins, the newest first."""

    logins: list[LoginView]


class EndedLogin(ResponseModel):
    """They must log in again."""

    ended: Literal[True] = True


def view(account: Account) -> PersonView:
    """Return an account as the API shows it."""
    return PersonView.of(
        account,
        labels=list(account.labels),
        has_password=bool(account.password),
        second_factor=bool(account.totp),
        created_at=account.created_at_ms,
        last_login_at=account.last_login_at_ms,
    )


class PeopleRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1", "administration")
        one, missing = "/people/{person_id}", responses(NO_SUCH_PERSON=404)
        last = responses(NO_SUCH_PERSON=404, LAST_ADMINISTRATOR=409, LIMITED_ADMIN=422)
        self.get("/people")(self.list_people)
        self.post("/people", status_code=201, responses=responses(NAME_TAKEN=409, LIMITED_ADMIN=422))(self.add_person)
        self.patch(one, responses=last)(self.change_person)
        self.delete(one, responses=last)(self.delete_person)
        self.post(f"{one}/link", status_code=201, responses=missing)(self.create_person_link)
        self.delete(f"{one}/second-factor", responses=missing)(self.remove_second_factor)
        self.get("/logins")(self.list_logins)
        self.delete("/logins/{login_id}", responses=responses(NO_SUCH_LOGIN=404))(self.end_login)

    async def list_people(self, _caller: AdminCaller) -> PeopleResponse:
        """List accounts."""
        return PeopleResponse(people=[view(each) for each in await people.every(self._scripts)])

    async def add_person(self, body: PersonBody, caller: AdminCaller) -> InvitedPerson:
        """Create an account. The response is the only place that shows the link to its password."""
        _require_grantable(body.role, tuple(body.labels))
        account = await people.create(self._scripts, body.name.strip(), body.role, tuple(body.labels))
        await self._audit(caller, "person.add", account.id, name=account.name, role=body.role, labels=body.labels)
        return InvitedPerson.of(view(account), link=await self._link(account))

    async def change_person(self, person_id: PersonId, body: PersonChanges, caller: AdminCaller) -> PersonView:
        """Change the role or the labels of an account."""
        account = await self._found(person_id)
        role = account.role if body.role is None else body.role
        labels = account.labels if body.labels is None else tuple(body.labels)
        _require_grantable(role, labels)
        changed = await people.update(self._scripts, person_id, role=role, labels=labels)
        await self._audit(caller, "person.change", person_id, name=account.name, role=role, labels=labels)
        return view(changed)

    async def delete_person(self, person_id: PersonId, caller: AdminCaller) -> DeletedPerson:
        """Delete an account."""
        account = await people.remove(self._scripts, person_id)
        await self._audit(caller, "person.delete", person_id, name=account.name)
        return DeletedPerson()

    async def create_person_link(self, person_id: PersonId, caller: AdminCaller) -> InvitedPerson:
        """Create a link with which a person sets a new password. A second factor is still asked for."""
        account = await self._found(person_id)
        await self._audit(caller, "person.link", person_id, name=account.name)
        return InvitedPerson.of(view(account), link=await self._link(account))

    async def remove_second_factor(self, person_id: PersonId, caller: AdminCaller) -> PersonView:
        """Remove the second factor of a person who has lost it."""
        await self._found(person_id)
        changed = await people.update(self._scripts, person_id, totp="")
        await people.set_recovery_codes(self._scripts, person_id, [])
        await self._audit(caller, "person.second_factor_removed", person_id, name=changed.name)
        return view(changed)

    async def list_logins(self, _caller: AdminCaller) -> LoginsResponse:
        """List who is logged in to the dashboard."""
        return LoginsResponse(logins=[_login(each) for each in await logins.every(self._scripts)])

    async def end_login(self, login_id: LoginId, caller: AdminCaller) -> EndedLogin:
        """End a login."""
        found = [each for each in await logins.every(self._scripts) if each.id == login_id]
        if not found:
            raise Refused("NO_SUCH_LOGIN", "This login has ended. GET /api/v1/logins lists the others.", 404)
        await logins.remove(self._scripts, found[0].token_hash)
        await self._audit(caller, "dashboard.login_ended", found[0].login.name or found[0].login.role)
        return EndedLogin()

    async def _found(self, person_id: str) -> Account:
        account = await people.find(self._scripts, person_id)
        if account is None:
            raise Refused("NO_SUCH_PERSON", f"There is no person {person_id}. GET /api/v1/people lists them.", 404)
        return account

    async def _link(self, account: Account) -> str:
        token = secrets.token_urlsafe(32)
        await logins.add_link(self._scripts, digest(token), f"person:{account.id}", ttl_s=LINK_S)
        return f"{self._settings.public_base_url}/enter#{token}"


def _require_grantable(role: Role, labels: tuple[str, ...]) -> None:
    if not permissions.is_grantable(SCOPES[role], permissions.reach_of((), labels)):
        text = "An administrator cannot be limited to labels. Choose another role, or no labels."
        raise Refused("LIMITED_ADMIN", text, 422)


def _login(listed: ListedLogin) -> LoginView:
    return LoginView.of(listed.login, id=listed.id, person_id=listed.login.person, role=Role(listed.login.role))
