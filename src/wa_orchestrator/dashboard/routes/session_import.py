"""Route of the import page: checks one account of another program, or imports it."""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import JSONResponse, Response

from wa_orchestrator.dashboard import guard, internal_api
from wa_orchestrator.dashboard.guard import LoggedInPerson
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.login import require_operator
from wa_orchestrator.dashboard.pages import session_import
from wa_orchestrator.dashboard.pages.session_import import AccountRow
from wa_orchestrator.domain.sessions import tags
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.sessions.imports import MAX_ACCOUNT_BYTES
from wa_orchestrator.web import request_body

_LONGEST_PLACE: Final = 1_000


class PickedAccount(BaseModel):
    """An account as the page sends it. The API checks what is in it."""

    model_config = ConfigDict(extra="forbid")
    number: Annotated[int, Field(ge=0, lt=10_000)]
    """Its row on the page."""
    place: Annotated[str, Field(max_length=_LONGEST_PLACE)]
    id: Annotated[str, Field(max_length=100)]
    files: dict[str, str] | None = None
    document: str | None = None
    label: str = ""
    tags: str = ""
    proxy: str = ""
    old_place_is_off: bool = False

    def body(self, act: str) -> dict[str, Any]:
        """Return the body of the API's request; fields that are empty are left out."""
        names = list(tags.normalized(self.tags.split(",")))
        wanted = {"files": self.files, "document": self.document, "label": self.label.strip(), "tags": names}
        wanted |= {"sessionId": self.id, "proxy": self.proxy.strip()}
        said = {"dryRun": True} if act == "check" else {"oldPlaceIsOff": self.old_place_is_off}
        return {name: value for name, value in wanted.items() if value} | said


class MovingInRoutes(APIRouter):
    """Route `/import/{act}`: JSON in, a row of the table out."""

    def __init__(self, app: FastAPI, renderer: Renderer) -> None:
        super().__init__()
        self._app, self._renderer = app, renderer
        self.post("/import/{act}")(self.import_account)

    async def import_account(self, act: Literal["check", "take"], request: Request, person: LoggedInPerson) -> Response:
        """Check one account, or take it over; the answer is its row."""
        guard.require_csrf_token(request, person, request.headers.get("x-csrf-token", ""))
        require_operator(person)
        try:
            picked = PickedAccount.model_validate_json(await request_body.read(request, MAX_ACCOUNT_BYTES))
        except ValidationError:
            raise Refused("BAD_JSON", "This is not an account. Reload the page.", 422) from None
        view = await self._renderer.view(request, person, "import")
        answer = await internal_api.call(self._app, person.caller, "POST", "/api/sessions/import", picked.body(act))
        found = AccountRow(picked.number, picked.place, picked.id, answer)
        row = session_import.row(self._renderer, view, found)
        return JSONResponse({"ok": answer.ok, "row": str(row)}, headers={"Cache-Control": "no-store"})
