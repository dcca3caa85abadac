"""The dashboard's routes: pages, their live streams, buttons, and the same facts for scripts."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Depends, FastAPI, Form, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import guard, internal_api
from wa_orchestrator.dashboard.fleet.history import Historian
from wa_orchestrator.dashboard.fleet.snapshot_reader import Fleet
from wa_orchestrator.dashboard.guard import NotLoggedIn
from wa_orchestrator.dashboard.html import compression
from wa_orchestrator.dashboard.html.renderer import HERE, THEMES, Desk, Shown, View, doorway, language_of
from wa_orchestrator.dashboard.live import Hub, Parts, Stream, Viewer
from wa_orchestrator.dashboard.login import Door, Entered, Person, Shut, Wrong, administrators_only
from wa_orchestrator.dashboard.pages import anti_ban, fleet, live_log, messages, proxies, scan, session, settings
from wa_orchestrator.dashboard.routes import actions, json_api, simulated_scan
from wa_orchestrator.errors import Refused
from wa_orchestrator.texts.catalogue import languages

Show = Callable[[Desk, View, Mapping[str, str]], Awaitable[Shown | None]]
#: Every page: its address, its name, what it shows.
PAGES: Final[Mapping[str, tuple[str, Show]]] = {
    "/": ("fleet", fleet.show),
    "/scan": ("scan", scan.show),
    "/sessions/{id}": ("session", session.show),
    "/messages": ("messages", messages.show),
    "/proxies": ("proxies", proxies.show),
    "/anti-ban": ("anti-ban", anti_ban.show),
    "/live-log": ("live-log", live_log.show),
    "/settings": ("settings", settings.show),
}
ADMINISTRATORS_ONLY: Final = frozenset({"settings"})


async def _first(desk: Desk, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    return desk.frame_parts(view) | {"first-steps": desk.macros.first_steps(view)}


LIVE: Final[Mapping[str, Parts]] = {
    "first": _first,
    "fleet": fleet.parts,
    "scan": scan.parts,
    "session": session.parts,
    "messages": messages.parts,
    "proxies": proxies.parts,
    "anti-ban": anti_ban.parts,
    "live-log": live_log.parts,
    "settings": settings.parts,
}
_YEAR_S: Final = 31_536_000
_CURSOR: Final = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
log_ = structlog.get_logger(__name__)


class Dashboard:
    """Pages for people. `run` keeps them live."""

    def __init__(self, app: FastAPI, context: Context) -> None:
        self._app = app
        self._context = context
        self._fleet = Fleet(context)
        self.hub = Hub(context, self._fleet)
        self.historian = Historian(context)
        self.desk = Desk(context, self._fleet, frozenset(PAGES))
        self.door = Door(context)

    async def run(self) -> None:
        """Read events and count them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.hub.run())
            tasks.create_task(self.historian.run())

    def router(self) -> APIRouter:
        """Offer the routes."""
        routes = APIRouter(include_in_schema=False)
        person = Annotated[Person, Depends(guard.people(self.door))]
        for path, (name, show) in PAGES.items():
            routes.add_api_route(path, self._page(name, show, person), methods=["GET"], response_class=HTMLResponse)
        routes.add_api_route("/events/ui", self._stream(person), methods=["GET"], response_class=StreamingResponse)
        routes.add_api_route("/do/{action}", self._do(person), methods=["POST"])
        routes.add_api_route("/choose", self._choose, methods=["POST"])
        routes.add_api_route("/login", self._login_page, methods=["GET"])
        routes.add_api_route("/login", self._login, methods=["POST"])
        routes.add_api_route("/enter", self._enter_page, methods=["GET"])
        routes.add_api_route("/enter", self._enter, methods=["POST"])
        routes.add_api_route("/logout", self._logout(person), methods=["POST"])
        return routes

    # -- pages

    def _page(self, name: str, show: Show, person: Any) -> Callable[..., Awaitable[Response]]:
        async def page(request: Request, someone: person) -> Response:
            cursor = self.hub.cursor
            await self.hub.catch_up()
            view = await self.desk.view(request, someone, name)
            return compression.packed(request, await made(request, view, someone, cursor))

        async def made(request: Request, view: View, someone: Person, cursor: str) -> Response:
            if name in ADMINISTRATORS_ONLY and not someone.is_administrator:
                return self.desk.page(view, Shown("refused.html", self.desk.frame_parts(view)), status=403)
            query = dict(request.query_params) | dict(request.path_params)
            shown = await show(self.desk, view, query)
            if shown is None:
                parts = self.desk.frame_parts(view)
                return self.desk.page(view, Shown("gone.html", parts), status=404)
            return self.desk.page(view, shown, cursor=cursor)

        return page

    def _stream(self, person: Any) -> Callable[..., Awaitable[Response]]:
        async def stream(request: Request, someone: person) -> Response:
            query = dict(request.query_params)
            page = query.get("page", "")
            if page not in LIVE or (page in ADMINISTRATORS_ONLY and not someone.is_administrator):
                raise Refused("NO_SUCH_PAGE", "There is no such page.", 404)
            language = language_of(request, self._context.settings.language)
            token = request.cookies.get(guard.cookie_name(self._context.settings))

            async def look() -> View:
                if not await self.door.is_inside(token):  # logged out elsewhere: this page must not go on
                    raise NotLoggedIn
                return await self.desk.view_as(someone, page, language)

            after = request.headers.get("last-event-id") or query.get("at", "")
            feed = Stream(self.hub, self.desk, Viewer(page, query), look, LIVE[page])
            seen = after if _CURSOR.fullmatch(after) else ""
            response = StreamingResponse(_until_left(feed.run(seen)), media_type="text/event-stream")
            guard.protect(response)
            response.headers["X-Accel-Buffering"] = "no"
            return response

        return stream

    # -- buttons

    def _do(self, person: Any) -> Callable[..., Awaitable[Response]]:
        async def do(request: Request, action: str, someone: person) -> Response:
            data = await request.form()
            view = await self.desk.view(request, someone, "")
            try:
                given = request.headers.get("x-csrf-token") or str(data.get("csrf", ""))
                guard.require_meant(request, someone, given)
                administrators_only(someone)
                outcome = await self._carry_out(action, data, someone, view)
            except Refused as refusal:
                return self._refused(view, refusal)
            self.hub.wake()
            return self._told(view, outcome)

        return do

    def _told(self, view: View, outcome: actions.Outcome, status: int = 200, **more: object) -> Response:
        toast = str(self.desk.macros.toast(view, outcome))
        told = {
            "state": outcome.state,
            "toast": toast,
            "go": outcome.go,
            "secret": outcome.secret,
            "left": outcome.left,
        }
        return JSONResponse(told | more, status_code=status, headers={"Cache-Control": "no-store"})

    def _refused(self, view: View, refusal: Refused) -> Response:
        """Say no in the person's language; the code stays for programs."""
        outcome = actions.Outcome("error", actions.translated(refusal.code, refusal.text, view))
        error = {"code": refusal.code, "message": refusal.text}
        return self._told(view, outcome, refusal.status, error=error)

    async def _carry_out(self, name: str, data: Any, someone: Person, view: View) -> actions.Outcome:
        if name == simulated_scan.ACTION:
            phone = scan.phone_in({"phone": str(data.get("phone", ""))})
            return await simulated_scan.scan(self._context, str(data.get("id", "")), phone, view)
        action = actions.find(name)
        asked = actions.forms(action, data)
        answers = []
        for form in asked:
            call = action.call(form)
            answers.append(await internal_api.call(self._app, someone.caller, call.method, call.path, call.json))
        outcome = actions.told(name, action, asked, answers, view)
        return await self._with_undo(name, asked, someone, outcome)

    async def _with_undo(
        self, name: str, asked: list[actions.Form], someone: Person, outcome: actions.Outcome
    ) -> actions.Outcome:
        """Offer to take back the deletion of one session, while its credentials are in the trash."""
        if name != "delete" or len(asked) != 1 or outcome.state != "ok":
            return outcome
        trash = await internal_api.call(self._app, someone.caller, "GET", "/api/v1/trash")
        mine = [each for each in (trash.body or {}).get("trash", []) if each["sessionId"] == asked[0].get("id")]
        return replace(outcome, undo={"trash": mine[0]["id"]}) if mine else outcome

    async def _choose(self, request: Request) -> Response:
        """Remember a language or a theme. It is a choice of this browser and needs no login."""
        if not guard.came_from_here(request):
            raise Refused("OTHER_ORIGIN", "This came from another site. Use the dashboard's own pages.", 403)
        data = await request.form()
        back = str(data.get("back", "/"))
        response = RedirectResponse(back if back.startswith("/") and not back.startswith("//") else "/", 303)
        for name, allowed in (("lang", languages()), ("theme", THEMES)):
            if str(data.get(name, "")) in allowed:
                response.set_cookie(name, str(data[name]), max_age=_YEAR_S, samesite="strict", path="/")
        return response

    # -- in and out

    async def _login_page(self, request: Request) -> Response:
        return await self._door(request, "login.html")

    async def _enter_page(self, request: Request) -> Response:
        return await self._door(request, "enter.html")

    async def _door(self, request: Request, template: str, status: int = 200, **values: object) -> Response:
        return compression.packed(request, doorway(self.desk, request, template, status=status, **values))

    async def _login(
        self, request: Request, password: Annotated[str, Form()] = "", name: Annotated[str, Form()] = ""
    ) -> Response:
        if not guard.came_from_here(request):
            raise Refused("OTHER_ORIGIN", "This came from another site. Use the dashboard's own pages.", 403)
        address = request.client.host if request.client else "?"
        outcome = await self.door.enter(password, name=name, address=address)
        match outcome:
            case Entered(token):
                return self._let_in(token)
            case Wrong(tries_left):
                log_.warning("login.refused", address=address, tries_left=tries_left)
                return await self._door(request, "login.html", 401, tries_left=tries_left, name=name)
            case Shut(seconds):
                response = await self._door(request, "login.html", 429, shut_s=seconds, name=name)
                response.headers["Retry-After"] = str(seconds)
                return response

    async def _enter(self, request: Request, token: Annotated[str, Form()] = "") -> Response:
        if not guard.came_from_here(request):
            raise Refused("OTHER_ORIGIN", "This came from another site. Use the dashboard's own pages.", 403)
        entered = await self.door.enter_by_link(token)
        return self._let_in(entered.token) if entered else await self._door(request, "login.html", 401, used_link=True)

    def _let_in(self, token: str) -> Response:
        response = RedirectResponse("/", status_code=303)
        guard.set_cookie(response, self._context.settings, token)
        guard.protect(response)
        return response

    def _logout(self, person: Any) -> Callable[..., Awaitable[Response]]:
        async def logout(request: Request, someone: person, csrf: Annotated[str, Form()] = "") -> Response:
            guard.require_meant(request, someone, csrf)
            await self.door.leave(someone)
            response = RedirectResponse("/login", status_code=303)
            response.delete_cookie(guard.cookie_name(self._context.settings), path="/")
            guard.protect(response)
            response.headers["Clear-Site-Data"] = '"cache"'
            return response

        return logout


async def _until_left(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """End a stream quietly when its person has logged out."""
    try:
        async for text in texts:
            yield text
    except NotLoggedIn:
        yield f"event: bye\ndata: {json.dumps({})}\n\n"


def install(app: FastAPI, context: Context) -> Dashboard:
    """Give an app its dashboard. The result is a loop: run it beside the server."""
    dashboard = Dashboard(app, context)
    context.recognize = internal_api.recognize
    app.add_exception_handler(NotLoggedIn, guard.to_the_login)
    app.include_router(dashboard.router())
    app.include_router(json_api.router(context, dashboard.desk))
    app.mount("/static", compression.KeptFiles(directory=HERE / "static"), name="static")
    return dashboard
