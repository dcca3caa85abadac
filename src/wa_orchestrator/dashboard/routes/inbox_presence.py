"""Who else has a conversation open, and drafts: `POST /inbox/here`, every few seconds from an open conversation."""

from typing import Annotated, Final

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError
from starlette.responses import JSONResponse, Response

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import guard
from wa_orchestrator.dashboard.guard import LoggedInPerson
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.login import require_operator
from wa_orchestrator.domain import conversation
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.conversations.models import LONGEST_REPLY
from wa_orchestrator.store.conversations import conversation_records, presence
from wa_orchestrator.store.conversations.presence import Attendant, Doing
from wa_orchestrator.texts.catalogue import texts
from wa_orchestrator.web import request_body
from wa_orchestrator.web.models import RequestModel

#: The longest draft, in the longest spelling of its characters.
_MAX_BYTES: Final = 12 * LONGEST_REPLY + 4096


class Attendance(RequestModel):
    """What a person does in an open conversation."""

    conversation: Annotated[str, Field(pattern=r"^c_[A-Za-z0-9_-]{2,200}$")]
    doing: Doing = Doing.READING
    draft: Annotated[str, Field(max_length=LONGEST_REPLY)] | None = None


class PresenceRoutes(APIRouter):
    """Route `/inbox/here`, for people."""

    def __init__(self, context: Context, renderer: Renderer) -> None:
        super().__init__()
        self._context, self._renderer = context, renderer
        self.post("/inbox/here")(self.attend)

    async def attend(self, request: Request, person: LoggedInPerson) -> Response:
        """Note what the person does; return who else is there, as the strip shows it."""
        guard.require_csrf_token(request, person, request.headers.get("x-csrf-token", ""))
        require_operator(person)
        try:
            told = Attendance.model_validate_json(await request_body.read(request, _MAX_BYTES))
        except ValidationError:
            raise Refused("BAD_JSON", "This is not a presence report. Reload the page.", 422) from None
        scripts, caller = self._context.scripts, person.caller
        asked = conversation.parse_id(told.conversation)
        known = await conversation_records.find(scripts, *asked) if asked else None
        reaches = await self._context.session_labels.account_filter_for(caller.reach)
        if known is None or not any(map(reaches, known.sessions)):
            raise Refused("NO_SUCH_CONVERSATION", "There is no such conversation.", 404)
        name = (known.session, known.contact)
        shown = person.name or str(person.role)
        await presence.attend(scripts, name, caller.key_id, shown, told.doing, draft=told.draft)
        there = await presence.others(scripts, name, caller.key_id)
        return JSONResponse(_strip(there, self._renderer.language_of(request)))


def _strip(there: list[Attendant], language: str) -> dict[str, str]:
    """Return what the strip says, as text; nothing where nobody else is there."""
    if not there:
        return {"doing": "", "text": ""}
    doing = there[0].doing
    names = ", ".join(each.name for each in there if each.doing is doing)
    return {"doing": doing, "text": texts(language)[f"inbox.presence.{doing}"].format(name=names)}
