"""Routes of the opt-out list: recipients that get no more messages."""

from typing import Annotated, Final, Literal

from fastapi import Path
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone
from wa_orchestrator.domain import recipient as recipients
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain.messages import opt_out_list
from wa_orchestrator.domain.messages.opt_out_list import RefusedLine
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.messages import opt_outs
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import LimitedSender, OperateCaller, ReadCaller
from wa_orchestrator.web.ids import PRINTABLE
from wa_orchestrator.web.keyed_route import longest_body
from wa_orchestrator.web.models import NextCursor, OptionalText, OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

#: Longer than the longest text, for whose JSON every sign may be escaped.
_MAX_FILE: Final = 12_100_000


class OptOutBody(RequestModel):
    """A recipient that wants no more messages."""

    phone: Annotated[
        str,
        Field(
            min_length=1,
            max_length=40,
            description="The phone, or `lid:` and the lid of a person whose phone is hidden.",
            examples=["972501234567"],
        ),
    ]


class OptOutFile(RequestModel):
    """People who want no more messages, as a file."""

    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=2_000_000,
            description="One number per line, or CSV with a column `phone`.",
            examples=["phone\n972501234567\n"],
        ),
    ]


class RefusedOptOut(ResponseModel):
    """A line of the file without a phone number."""

    line: int
    code: str = Field(description="`BAD_PHONE`, or `RECIPIENT_IS_LID`.", examples=["BAD_PHONE"])
    message: str


class OptOutImport(ResponseModel):
    """What became of the lines of a file."""

    added: int
    known: int = Field(description="They had opted out before.")
    cancelled: int = Field(description="How many waiting messages to them were cancelled.")
    errors: list[RefusedOptOut]


class OptOut(ResponseModel):
    """A recipient that wants no more messages, known by phone or by WhatsApp's `lid`."""

    phone: str | None = Field(examples=["972501234567"])
    lid: str | None = Field(description="WhatsApp's id of a contact whose phone is hidden.")
    at: OptionalTimestamp
    word: OptionalText = Field(description="The word of the message that opted out.", examples=["stop"])
    via: OptionalText = Field(description="`api`, or how the message came.")
    only_from: OptionalText = Field(
        description="The sending phone that it holds for; null: every one. A worker reported it, and the person is not "
        "known to have got a message from there.",
    )


class AddedOptOut(OptOut):
    """The new entry, and what it stopped."""

    cancelled: int = Field(description="How many waiting messages to this recipient were cancelled.")


class OptOutPage(ResponseModel):
    """A page of the list."""

    opt_outs: list[OptOut]
    next: NextCursor


class DeletedOptOut(ResponseModel):
    """The recipient may be written to again."""

    deleted: Literal[True] = True


Recipient = Annotated[
    str, Path(pattern=PRINTABLE, description="The phone, or `lid:` and the lid.", examples=["972501234567"])
]


class OptOutRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/opt-outs", "opt-outs")
        self.get("", responses=responses(BAD_CURSOR=400))(self.list_opt_outs)
        bad = responses(BAD_PHONE=400, BAD_RECIPIENT=400, RECIPIENT_IS_LID=422)
        self.post("", status_code=201, responses=bad)(self.add_opt_out)
        self.post("/import")(self.import_opt_outs)
        self.delete("/{recipient}", responses=responses(BAD_PHONE=400, NO_SUCH_OPT_OUT=404))(self.delete_opt_out)

    async def list_opt_outs(
        self, _caller: ReadCaller, cursor: str | None = None, limit: paging.Limit = 100
    ) -> OptOutPage:
        """List the recipients that opted out."""
        stored = await contacts.opt_outs(self._scripts)
        found, after = paging.page(stored, cursor, limit, lambda each: f"{each.recipient} {each.only_from}")
        return OptOutPage(opt_outs=[_view(each) for each in found], next=after)

    async def add_opt_out(self, body: OptOutBody, caller: LimitedSender) -> AddedOptOut:
        """Add a recipient to the list and cancel what waits for them.

        It holds for every session, whoever adds it. A key that is limited to some sessions is told of its own messages.
        """
        recipient = await contacts.person(self._scripts, body.phone)
        await contacts.opt_out(self._scripts, recipient, word="", via="api")
        await opt_outs.settle_conversations(self._scripts, recipient)
        counted = await self._context.session_labels.filter_for(caller.reach)
        cancelled = await opt_outs.cancel_for(self._scripts, recipient, counted)
        await self._audit(caller, "opt_out.add", recipient[-4:], cancelled=cancelled)
        added = contacts.OptOutRecord(recipient, await self._scripts.now_ms(), "", "api")
        # It may have been taken off at the same moment; how it came on the list before is not for everybody.
        stored = added if caller.is_limited else await contacts.opt_out_of(self._scripts, recipient) or added
        return AddedOptOut.of(_view(stored), cancelled=cancelled)

    @longest_body(_MAX_FILE)
    async def import_opt_outs(self, body: OptOutFile, caller: OperateCaller) -> OptOutImport:
        """Add the recipients of a file to the list and cancel what waits for them. Lines are refused one by one."""
        found, refused = await self._read(body.text)
        counted = await self._context.session_labels.filter_for(caller.reach)
        added = cancelled = 0
        for recipient in found:
            added += await contacts.opt_out(self._scripts, recipient, word="", via="import")
            await opt_outs.settle_conversations(self._scripts, recipient)
            cancelled += await opt_outs.cancel_for(self._scripts, recipient, counted)
        await self._audit(caller, "opt_out.import", "", added=added, cancelled=cancelled)
        errors = [RefusedOptOut(line=each.line, code=each.code, message=each.text) for each in refused]
        return OptOutImport(added=added, known=len(found) - added, cancelled=cancelled, errors=errors)

    async def _read(self, text: str) -> tuple[list[str], list[RefusedLine]]:
        """Return the recipients of a file, and its lines without one: without a number, or with the digits of a LID."""
        found, refused = opt_out_list.read(text, phone.parse)
        lids = await contacts.known_lids(self._scripts, found)
        for each in lids:
            refusal = recipients.lid_refusal(each)
            refused.append(RefusedLine(found[Phone(each)], refusal.code, refusal.text))
        return [each for each in found if each not in lids], sorted(refused, key=lambda each: each.line)

    async def delete_opt_out(self, recipient: Recipient, caller: OperateCaller) -> DeletedOptOut:
        """Take a recipient off the list."""
        name = recipient if recipient.startswith("lid:") else phone.parse(recipient)
        if not await contacts.opt_in(self._scripts, name):
            raise Refused("NO_SUCH_OPT_OUT", "This recipient did not opt out. GET /api/v1/opt-outs lists who did.", 404)
        await opt_outs.settle_conversations(self._scripts, name)
        await self._audit(caller, "opt_out.delete", name[-4:])
        return DeletedOptOut()


def _view(stored: contacts.OptOutRecord) -> OptOut:
    name = stored.recipient
    lid = name.removeprefix("lid:") if name.startswith("lid:") else None
    return OptOut.of(stored, phone=None if lid else name, lid=lid, at=stored.at_ms)
