"""Import page: linked devices of other programs, checked and shown before they are imported."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.dashboard.internal_api import ApiResponse
from wa_orchestrator.dashboard.routes.actions import error_message


@dataclass(frozen=True, slots=True)
class AccountRow:
    """What was found in one place, or what became of it."""

    number: int
    place: str
    session_id: str
    answer: ApiResponse


async def show(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> PageContent:
    return PageContent("import.html", {}, {}, {})


async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    return {}


def row(renderer: Renderer, view: View, found: AccountRow) -> Markup:
    """Return a row of the table. Why an account is refused is said in the person's language."""
    problem = Markup("") if found.answer.ok else error_message(found.answer, view, "session-import")
    made: Markup = renderer.operations.import_row(view, found, found.answer.body if found.answer.ok else {}, problem)
    return made
