"""Routes of what a session does besides sending: on a message (react, edit, delete, read), or in a chat."""

from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone as phones
from wa_orchestrator.domain.messages.content import LONGEST_TEXT
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import message_search, named_message
from wa_orchestrator.messages.named_message import NamedMessage
from wa_orchestrator.orchestrator.api.sessions.reads import MISSING, SessionId, find
from wa_orchestrator.orchestrator.messages.message_acts import MessageActs
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.web.auth import Caller, LimitedSender
from wa_orchestrator.web.models import OptionalText, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_DONE = responses(ACT_REFUSED=409, HELD=409, ACTS_LIMITED=429, SESSION_NOT_CONNECTED=503, ACT_UNANSWERED=503)
_ON_MESSAGE = {**_DONE, **responses(NO_SUCH_MESSAGE=404, ARCHIVE_ELSEWHERE=503)}
_AMENDING = {**_ON_MESSAGE, **responses(NOT_OURS=409, NOT_SENT=409, AMENDED_TOO_LATE=409, NOT_EDITABLE=409)}
_IN_CHAT = {**_DONE, **MISSING, **responses(BAD_PHONE=400, BAD_RECIPIENT=400, RECIPIENT_IS_LID=422)}
AnyMessageId = Annotated[
    str,
    Path(
        pattern=r"^[mi]_[A-Za-z0-9_-]{4,200}$",
        description="`messageId` of a message that was sent (`m_…`) or came in (`i_…`).",
        examples=["i_dzEgM0EwMA"],
    ),
]


class ReactionBody(RequestModel):
    """A reaction."""

    emoji: Annotated[str, Field(max_length=32)] = Field(
        "", description="One emoji; empty takes it back.", examples=["👍"]
    )


class EditBody(RequestModel):
    """Another text for a message."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)] = Field("", examples=["Your order is ready at 6 pm."])


class TypingBody(RequestModel):
    """What is shown in a chat."""

    to: Annotated[str, Field(max_length=60)] = Field("", examples=["972501234567"])
    state: Literal["typing", "recording", "paused"] = "typing"


class NumberBody(RequestModel):
    """A phone to look up."""

    phone: Annotated[str, Field(max_length=40)] = Field("", examples=["972501234567"])


class ChatBody(RequestModel):
    """A person or a group."""

    to: Annotated[str, Field(max_length=60)] = Field("", examples=["972501234567"])


class BlockBody(ChatBody):
    """Whether a person is blocked."""

    blocked: bool = True


class ActDone(ResponseModel):
    """WhatsApp has taken it."""

    done: Literal[True] = True


class CheckedNumber(ResponseModel):
    """Whether a phone has WhatsApp."""

    phone: str
    exists: bool
    lid: OptionalText = Field(None, description="WhatsApp's own id of the person.")


class ProfilePicture(ResponseModel):
    """The picture of a person or a group."""

    url: str = Field(description="An address of WhatsApp that works for some days.")


class MessageActRoutes(RouteGroup):
    """Routes `/api/v1/messages/{message_id}/…`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/messages", "messages")
        self._acts = MessageActs(context)
        one, reacting = "/{message_id}", {**_ON_MESSAGE, **responses(OPTED_OUT=422)}
        self.post(f"{one}/reaction", responses=reacting)(self.react_to_message)
        self.post(f"{one}/edit", responses={**_AMENDING, **responses(OPTED_OUT=422)})(self.edit_message)
        self.post(f"{one}/delete", responses=_AMENDING)(self.delete_message_for_everyone)
        self.post(f"{one}/read", responses={**_ON_MESSAGE, **responses(NOT_THEIRS=409)})(self.mark_message_read)

    async def react_to_message(self, message_id: AnyMessageId, body: ReactionBody, caller: LimitedSender) -> ActDone:
        """React to a message with an emoji, or take the reaction back."""
        await self._acts.react(await self._found(message_id, caller), body.emoji.strip())
        return ActDone()

    async def edit_message(self, message_id: AnyMessageId, body: EditBody, caller: LimitedSender) -> ActDone:
        """Replace the text or caption of a message that was sent at most 15 minutes ago."""
        target = await self._found(message_id, caller)
        if not body.text.strip():
            raise Refused("VALIDATION_FAILED", "`text` must contain a visible character.", 422)
        await self._acts.edit(target, body.text)
        await self._audit(caller, "message.edit", message_id)
        return ActDone()

    async def delete_message_for_everyone(self, message_id: AnyMessageId, caller: LimitedSender) -> ActDone:
        """Delete a message for everyone, at most 60 hours after it was sent."""
        await self._acts.delete(await self._found(message_id, caller))
        await self._audit(caller, "message.delete", message_id)
        return ActDone()

    async def mark_message_read(self, message_id: AnyMessageId, caller: LimitedSender) -> ActDone:
        """Mark a message that came in as read."""
        await self._acts.mark_read(await self._found(message_id, caller))
        return ActDone()

    async def _found(self, message_id: str, caller: Caller) -> NamedMessage:
        both = (self._scripts, self._context.archive)
        found = await named_message.find(*both, message_id, ())
        if found is not None and await named_message.is_reached(self._context.session_labels, caller.reach, found):
            return found
        await message_search.require_complete(*both, message_search.MAY_BE_THERE, messageId=message_id)
        raise Refused(
            "NO_SUCH_MESSAGE", "There is no such message; it may have been erased.", 404, messageId=message_id
        )


class ChatActRoutes(RouteGroup):
    """Routes `/api/sessions/{session_id}/…` about chats."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/sessions/{session_id}", "chats")
        self._acts = MessageActs(context)
        self.post("/typing", responses={**_IN_CHAT, **responses(OPTED_OUT=422)})(self.show_typing)
        self.post("/number-check", responses=_IN_CHAT)(self.check_number)
        self.post("/profile-picture", responses={**_IN_CHAT, **responses(NOT_SHOWN=404)})(self.get_profile_picture)
        self.post("/block", responses=_IN_CHAT)(self.block_person)

    async def show_typing(self, session_id: SessionId, body: TypingBody, caller: LimitedSender) -> ActDone:
        """Show in a chat that the account types or records."""
        session = await find(self._context, session_id, caller.reach)
        await self._acts.show_typing(session, await contacts.parse_recipient(self._scripts, body.to), body.state)
        return ActDone()

    async def check_number(self, session_id: SessionId, body: NumberBody, caller: LimitedSender) -> CheckedNumber:
        """Ask WhatsApp whether a phone has an account, a few times a day."""
        session = await find(self._context, session_id, caller.reach)
        phone = await contacts.parse_recipient(self._scripts, phones.parse(body.phone))
        found = await self._acts.check_number(session, phone)
        await self._audit(caller, "number.check", phone[-4:], session=session_id)
        return CheckedNumber(phone=phone, exists=bool(found.get("exists")), lid=str(found.get("lid") or ""))

    async def get_profile_picture(self, session_id: SessionId, body: ChatBody, caller: LimitedSender) -> ProfilePicture:
        """Get the address of the picture of a person or a group; counts as a number check."""
        session = await find(self._context, session_id, caller.reach)
        found = await self._acts.profile_picture(session, await contacts.parse_recipient(self._scripts, body.to))
        return ProfilePicture(url=str(found.get("url") or ""))

    async def block_person(self, session_id: SessionId, body: BlockBody, caller: LimitedSender) -> ActDone:
        """Block or unblock a person for this account."""
        session = await find(self._context, session_id, caller.reach)
        how: Literal["block", "unblock"] = "block" if body.blocked else "unblock"
        to = await contacts.parse_recipient(self._scripts, body.to)
        await self._acts.set_blocked(session, to, how)
        await self._audit(caller, f"contact.{how}", to[-4:], session=session_id)
        return ActDone()
