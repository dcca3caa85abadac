"""Routes of groups: list, describe, create, rename, leave, remove a member, invite by link, answer requests to join.

There is no route that adds somebody: people come in by the link, which they follow themselves. Members are read from
WhatsApp at each call and not stored.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Path
from pydantic import Field, StringConstraints, ValidationError

from wa_orchestrator.context import Context
from wa_orchestrator.domain import recipient
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages.act_runner import ActRunner, Limit
from wa_orchestrator.orchestrator.api.message_acts import ActDone
from wa_orchestrator.orchestrator.api.sessions.reads import MISSING, SessionId, find
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.records import Session
from wa_orchestrator.web.auth import Caller, LimitedOperator, LimitedReader
from wa_orchestrator.web.ids import PRINTABLE
from wa_orchestrator.web.models import OptionalText, OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_DONE = {
    **MISSING,
    **responses(ACT_REFUSED=409, HELD=409, ACTS_LIMITED=429, SESSION_NOT_CONNECTED=503, ACT_UNANSWERED=503),
}
_OF_GROUP = {**_DONE, **responses(UNKNOWN_GROUP=404, GROUP_FORBIDDEN=403)}
_OF_MEMBER = {**_OF_GROUP, **responses(NO_SUCH_MEMBER=404, BAD_PHONE=400, BAD_RECIPIENT=400, RECIPIENT_IS_LID=422)}
T = TypeVar("T", bound=ResponseModel)
#: WhatsApp's own limit.
_LONGEST_SUBJECT = 100
GROUP_ID = re.compile(r"[0-9]{5,20}(-[0-9]{5,20})?@g\.us")
GroupId = Annotated[
    str,
    Path(
        pattern=f"^{GROUP_ID.pattern}$",
        description="The group's id, as events name it.",
        examples=["120363025246125486@g.us"],
    ),
]
Member = Annotated[
    str, Path(pattern=PRINTABLE, description="The member: a phone, or `lid:…`.", examples=["972501234567"])
]
Subject = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=_LONGEST_SUBJECT, pattern=r"^[^\x00-\x1f\x7f]*$")
]


class GroupView(ResponseModel):
    """A group that the account is in."""

    id: str = Field(examples=["120363025246125486@g.us"])
    subject: str = Field(max_length=1000, examples=["Course 7"])
    size: int = Field(ge=0, description="How many members it has.")
    admin: bool = Field(False, description="Whether the account is an admin of it.")
    description: OptionalText = Field(None, max_length=10_000, description="Not in a list of groups.")
    created_at: OptionalTimestamp = None
    join_approval: bool = Field(False, description="Whether an admin decides who may join by the link.")
    only_admins_write: bool = False


class GroupMember(ResponseModel):
    """A member of a group."""

    phone: OptionalText = Field(None, max_length=20, description="Missing where the person hides it.")
    lid: OptionalText = Field(None, max_length=20, description="WhatsApp's own id of the person.")
    admin: bool = False


class GroupDetail(GroupView):
    """A group with its members."""

    members: list[GroupMember] = Field(max_length=10_000)


class GroupList(ResponseModel):
    """The groups of an account."""

    groups: list[GroupView] = Field(max_length=1000)
    complete: bool = Field(True, description="False where these are not all: more than a thousand, or long names.")


class NewGroup(RequestModel):
    """A group to make."""

    subject: Subject = Field("", examples=["Course 7"])


class GroupChange(RequestModel):
    """What to change about a group; what is not named stays."""

    subject: Subject | None = None
    join_approval: bool | None = Field(None, description="Whether an admin decides who may join by the link.")


class GroupLink(ResponseModel):
    """The link by which people join."""

    link: str = Field(max_length=200, examples=["https://chat.whatsapp.com/AbCdEfGhIjKlMnOpQrStUv"])


class JoinRequest(ResponseModel):
    """A person who asks to join."""

    phone: OptionalText = Field(None, max_length=20)
    lid: OptionalText = Field(None, max_length=20)
    at: OptionalTimestamp = None


class JoinRequests(ResponseModel):
    """Who asks to join a group."""

    requests: list[JoinRequest] = Field(max_length=10_000)


class JoinAnswer(RequestModel):
    """The answer to somebody who asks to join."""

    member: Annotated[str, Field(max_length=60)] = Field(
        "", description="A phone, or `lid:…`.", examples=["972501234567"]
    )
    answer: Literal["approve", "reject"] = "reject"


class GroupRoutes(RouteGroup):
    """Routes `/api/sessions/{session_id}/groups`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/sessions/{session_id}/groups", "groups")
        self._acts = ActRunner(context.settings, context.scripts)
        one, requests = "/{group_id}", "/{group_id}/join-requests"
        self.get("", responses=_DONE)(self.list_groups)
        self.post("", status_code=201, responses=_DONE)(self.create_group)
        self.get(one, responses=_OF_GROUP)(self.get_group)
        self.patch(one, responses=_OF_GROUP)(self.change_group)
        self.post(f"{one}/leave", responses=_OF_GROUP)(self.leave_group)
        self.delete(f"{one}/members/{{member}}", responses=_OF_MEMBER)(self.remove_group_member)
        self.get(f"{one}/link", responses=_OF_GROUP)(self.get_group_link)
        self.post(f"{one}/link", responses=_OF_GROUP)(self.renew_group_link)
        self.get(requests, responses=_OF_GROUP)(self.list_join_requests)
        self.post(requests, responses={**_OF_MEMBER, **responses(NO_SUCH_REQUEST=404)})(self.answer_join_request)

    async def list_groups(self, session_id: SessionId, caller: LimitedReader) -> GroupList:
        """List the groups that the account is in, without their members."""
        answer = await self._ask(caller, session_id, "list_groups", Limit.ACTS)
        return _read(GroupList, answer)

    async def get_group(self, session_id: SessionId, group_id: GroupId, caller: LimitedReader) -> GroupDetail:
        """Get a group with its members, as WhatsApp has them now."""
        answer = await self._ask(caller, session_id, "describe_group", Limit.ACTS, to=group_id)
        return _read(GroupDetail, answer.get("group"))

    async def create_group(self, session_id: SessionId, body: NewGroup, caller: LimitedOperator) -> GroupView:
        """Create a group without other members; people join by its link."""
        session = await find(self._context, session_id, caller.reach)
        _require_subject(body.subject)
        answer = await self._tell(session, "create_group", Limit.GROUPS, text=body.subject)
        made = _read(GroupView, answer.get("group"))
        await self._audit(caller, "group.create", made.id, session=session_id)
        return made

    async def change_group(
        self, session_id: SessionId, group_id: GroupId, body: GroupChange, caller: LimitedOperator
    ) -> ActDone:
        """Rename a group, or have an admin decide who joins by the link."""
        session = await find(self._context, session_id, caller.reach)
        if body.subject is not None or body.join_approval is None:
            _require_subject(body.subject or "")
        if body.subject is not None:
            await self._tell(session, "rename_group", Limit.GROUPS, to=group_id, text=body.subject)
        if body.join_approval is not None:
            how = "on" if body.join_approval else "off"
            await self._tell(session, "approve_joins", Limit.GROUPS, to=group_id, text=how)
        await self._audit(caller, "group.change", group_id, session=session_id)
        return ActDone()

    async def leave_group(self, session_id: SessionId, group_id: GroupId, caller: LimitedOperator) -> ActDone:
        """Leave a group."""
        await self._ask(caller, session_id, "leave_group", Limit.GROUPS, to=group_id)
        await self._audit(caller, "group.leave", group_id, session=session_id)
        return ActDone()

    async def remove_group_member(
        self, session_id: SessionId, group_id: GroupId, member: Member, caller: LimitedOperator
    ) -> ActDone:
        """Remove somebody from a group."""
        session = await find(self._context, session_id, caller.reach)
        await self._tell(session, "remove_member", Limit.GROUPS, to=group_id, **await self._names(member))
        await self._audit(caller, "group.remove_member", group_id, session=session_id, member=member[-4:])
        return ActDone()

    async def get_group_link(self, session_id: SessionId, group_id: GroupId, caller: LimitedOperator) -> GroupLink:
        """Get the link by which people join. Everybody who has it can pass it on."""
        return _read(GroupLink, await self._ask(caller, session_id, "group_link", Limit.ACTS, to=group_id))

    async def renew_group_link(self, session_id: SessionId, group_id: GroupId, caller: LimitedOperator) -> GroupLink:
        """Make a new link; the old one stops working."""
        answer = await self._ask(caller, session_id, "renew_group_link", Limit.GROUPS, to=group_id)
        await self._audit(caller, "group.renew_link", group_id, session=session_id)
        return _read(GroupLink, answer)

    async def list_join_requests(self, session_id: SessionId, group_id: GroupId, caller: LimitedReader) -> JoinRequests:
        """List requests to join a group whose admins decide."""
        return _read(JoinRequests, await self._ask(caller, session_id, "join_requests", Limit.ACTS, to=group_id))

    async def answer_join_request(
        self, session_id: SessionId, group_id: GroupId, body: JoinAnswer, caller: LimitedOperator
    ) -> ActDone:
        """Approve or reject a request to join."""
        session = await find(self._context, session_id, caller.reach)
        named = {"to": group_id, "text": body.answer, **await self._names(body.member)}
        await self._tell(session, "answer_join_request", Limit.ACTS, **named)
        await self._audit(caller, f"group.{body.answer}", group_id, session=session_id, member=body.member[-4:])
        return ActDone()

    async def _names(self, member: str) -> dict[str, str]:
        """Return a person as workers expect it."""
        named = await contacts.parse_recipient(self._scripts, member)
        if recipient.is_group(named):
            raise recipient.BadRecipient("A member is a person: a phone, or lid:123456789012345.")
        return {"lid": recipient.lid_of(named)} if recipient.lid_of(named) else {"phone": named}

    async def _ask(self, caller: Caller, session_id: str, kind: str, limit: Limit, **fields: str) -> Mapping[str, Any]:
        return await self._tell(await find(self._context, session_id, caller.reach), kind, limit, **fields)

    async def _tell(self, session: Session, kind: str, limit: Limit, **fields: str) -> Mapping[str, Any]:
        await self._acts.spend(session.id, limit)
        return await self._acts.run(session, kind, **fields)


def _require_subject(subject: str) -> None:
    if not subject:
        raise Refused("VALIDATION_FAILED", "`subject` must contain a visible character.", 422)


def _read(model: type[T], answer: object) -> T:
    """Validate a worker's answer; a compromised worker may answer anything."""
    try:
        return model.model_validate(answer)
    except (ValidationError, OverflowError) as error:
        raise Refused("ACT_REFUSED", "WhatsApp refused it.", 409, reason="INVALID_ANSWER") from error
