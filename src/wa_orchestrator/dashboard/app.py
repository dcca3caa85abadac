"""The dashboard's routes: pages, live streams, actions, login, and a JSON API with the same data."""

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
from wa_orchestrator.dashboard.fleet.history import HistoryRecorder
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.guard import NotLoggedIn
from wa_orchestrator.dashboard.html import compression
from wa_orchestrator.dashboard.html.renderer import HERE, THEMES, PageContent, Renderer, View, language_of, login_page
from wa_orchestrator.dashboard.live import Hub, OpenPage, PageStream, Parts
from wa_orchestrator.dashboard.login import (
    Authenticator,
    LoggedIn,
    Person,
    TooManyAttempts,
    WrongPassword,
    require_administrator,
)
from wa_orchestrator.dashboard.pages import anti_ban, fleet, live_log, messages, proxies, scan, session, settings
from wa_orchestrator.dashboard.routes import actions, json_api, simulated_scan
from wa_orchestrator.errors import Refused
from wa_orchestrator.loop import Loop
from wa_orchestrator.texts.catalogue import languages
from wa_orchestrator.web import problems

Show = Callable[[Renderer, View, Mapping[str, str]], Awaitable[PageContent | None]]
#: Every page: path, name, handler.
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
#: Addresses of the first dashboard, which people have as bookmarks.
OLD_ADDRESSES: Final[Mapping[str, str]] = {"/index.html": "/", "/scan.html": "/scan", "/live-log.html": "/live-log"}
ADMINISTRATORS_ONLY: Final = frozenset({"settings"})


def _redirect_to(path: str) -> Callable[..., Awaitable[Response]]:
    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{path}?{request.url.query}" if request.url.query else path, 308)

    return redirect


async def _first(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    return renderer.frame_parts(view) | {"first-steps": renderer.macros.first_steps(view)}


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
log = structlog.get_logger(__name__)


class Dashboard:
    """The dashboard. `run` keeps open pages up to date."""

    def __init__(self, app: FastAPI, context: Context) -> None:
        self._app = app
        self._context = context
        self._reader = SnapshotReader(context)
        self.hub = Hub(context, self._reader)
        self.history_recorder = HistoryRecorder(context)
        self.renderer = Renderer(context, self._reader, frozenset(PAGES))
        self.auth = Authenticator(context)

    async def run(self) -> None:
        """Read and count events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.hub.run())
            tasks.create_task(Loop("dashboard_history", self.history_recorder).run())

    def router(self) -> APIRouter:
        """Return the routes."""
        routes = APIRouter(include_in_schema=False)
        person = Annotated[Person, Depends(guard.require_login(self.auth))]
        for path, (name, show) in PAGES.items():
            routes.add_api_route(path, self._page(name, show, person), methods=["GET"], response_class=HTMLResponse)
        for old, path in OLD_ADDRESSES.items():
            routes.add_api_route(old, _redirect_to(path), methods=["GET"])
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
            view = await self.renderer.view(request, someone, name)
            return compression.compressed(request, await content(request, view, someone, cursor))

        async def content(request: Request, view: View, someone: Person, cursor: str) -> Response:
            if name in ADMINISTRATORS_ONLY and not someone.is_administrator:
                return self.renderer.page(
                    view, PageContent("refused.html", self.renderer.frame_parts(view)), status=403
                )
            query = dict(request.query_params) | dict(request.path_params)
            shown = await show(self.renderer, view, query)
            if shown is None:
                parts = self.renderer.frame_parts(view)
                return self.renderer.page(view, PageContent("gone.html", parts), status=404)
            return self.renderer.page(view, shown, cursor=cursor)

        return page

    def _stream(self, person: Any) -> Callable[..., Awaitable[Response]]:
        async def stream(request: Request, someone: person) -> Response:
            query = dict(request.query_params)
            page = query.get("page", "")
            if page not in LIVE or (page in ADMINISTRATORS_ONLY and not someone.is_administrator):
                raise Refused("NO_SUCH_PAGE", "There is no such page.", 404)
            language = language_of(request, self._context.settings.language)
            token = request.cookies.get(guard.cookie_name(self._context.settings))

            async def current_view() -> View:
                if not await self.auth.is_logged_in(token):  # logged out elsewhere: stop the stream
                    raise NotLoggedIn
                return await self.renderer.view_as(someone, page, language)

            after = request.headers.get("last-event-id") or query.get("at", "")
            feed = PageStream(self.hub, self.renderer, OpenPage(page, query), current_view, LIVE[page])
            seen = after if _CURSOR.fullmatch(after) else ""
            response = StreamingResponse(_until_logged_out(feed.run(seen)), media_type="text/event-stream")
            guard.add_security_headers(response)
            response.headers["X-Accel-Buffering"] = "no"
            return response

        return stream

    async def no_such_page(self, request: Request, error: Exception) -> Response:
        """Answer an unknown address: with a page for people, with JSON for programs. Needs no login."""
        if not wants_page(request):
            return problems.to_response(error)
        return await self._login_response(request, "missing.html", 404)

    # -- buttons

    def _do(self, person: Any) -> Callable[..., Awaitable[Response]]:
        async def do(request: Request, action: str, someone: person) -> Response:
            data = await request.form()
            view = await self.renderer.view(request, someone, "")
            try:
                given = request.headers.get("x-csrf-token") or str(data.get("csrf", ""))
                guard.require_csrf_token(request, someone, given)
                require_administrator(someone)
                outcome = await self._perform(action, data, someone, view)
            except Refused as refusal:
                return self._refused(view, refusal)
            self.hub.wake()
            return self._outcome(view, outcome)

        return do

    def _outcome(self, view: View, outcome: actions.Outcome, status: int = 200, **more: object) -> Response:
        body = {
            "state": outcome.state,
            "toast": str(self.renderer.macros.toast(view, outcome)),
            "go": outcome.go,
            "secret": outcome.secret,
            "left": outcome.left,
        }
        return JSONResponse(body | more, status_code=status, headers={"Cache-Control": "no-store"})

    def _refused(self, view: View, refusal: Refused) -> Response:
        """Return an error in the person's language, with its code for scripts."""
        outcome = actions.Outcome("error", actions.error_sentence(refusal.code, refusal.text, view))
        error = {"code": refusal.code, "message": refusal.text}
        return self._outcome(view, outcome, refusal.status, error=error)

    async def _perform(self, name: str, data: Any, someone: Person, view: View) -> actions.Outcome:
        if name == simulated_scan.ACTION:
            phone = scan.phone_in({"phone": str(data.get("phone", ""))})
            return await simulated_scan.scan(self._context, str(data.get("id", "")), phone, view)
        action = actions.find(name)
        asked = actions.forms(action, data)
        answers = []
        for form in asked:
            call = action.call(form)
            answers.append(await internal_api.call(self._app, someone.caller, call.method, call.path, call.json))
        outcome = actions.outcome_of(name, action, asked, answers, view)
        return await self._with_undo(name, asked, someone, outcome)

    async def _with_undo(
        self, name: str, asked: list[actions.Form], someone: Person, outcome: actions.Outcome
    ) -> actions.Outcome:
        """Offer to undo the deletion of one session while its credentials are in the trash."""
        if name != "delete" or len(asked) != 1 or outcome.state != "ok":
            return outcome
        trash = await internal_api.call(self._app, someone.caller, "GET", "/api/v1/trash")
        mine = [each for each in (trash.body or {}).get("trash", []) if each["sessionId"] == asked[0].get("id")]
        return replace(outcome, undo={"trash": mine[0]["id"]}) if mine else outcome

    async def _choose(self, request: Request) -> Response:
        """Set the language or the theme of this browser. Needs no login."""
        guard.require_same_origin(request)
        data = await request.form()
        back = str(data.get("back", "/"))
        response = RedirectResponse(back if back.startswith("/") and not back.startswith("//") else "/", 303)
        for name, allowed in (("lang", languages()), ("theme", THEMES)):
            if str(data.get(name, "")) in allowed:
                response.set_cookie(name, str(data[name]), max_age=_YEAR_S, samesite="strict", path="/")
        return response

    # -- login and logout

    async def _login_page(self, request: Request) -> Response:
        return await self._login_response(request, "login.html")

    async def _enter_page(self, request: Request) -> Response:
        return await self._login_response(request, "enter.html")

    async def _login_response(self, request: Request, template: str, status: int = 200, **values: object) -> Response:
        return compression.compressed(request, login_page(self.renderer, request, template, status=status, **values))

    async def _login(
        self, request: Request, password: Annotated[str, Form()] = "", name: Annotated[str, Form()] = ""
    ) -> Response:
        guard.require_same_origin(request)
        address = request.client.host if request.client else "?"
        outcome = await self.auth.log_in(password, name=name, address=address)
        match outcome:
            case LoggedIn(token):
                return self._logged_in(token)
            case WrongPassword(attempts_left):
                log.warning("login.refused", address=address, attempts_left=attempts_left)
                return await self._login_response(request, "login.html", 401, attempts_left=attempts_left, name=name)
            case TooManyAttempts(seconds):
                response = await self._login_response(request, "login.html", 429, locked_s=seconds, name=name)
                response.headers["Retry-After"] = str(seconds)
                return response

    async def _enter(self, request: Request, token: Annotated[str, Form()] = "") -> Response:
        guard.require_same_origin(request)
        entered = await self.auth.log_in_by_link(token)
        return (
            self._logged_in(entered.token)
            if entered
            else await self._login_response(request, "login.html", 401, used_link=True)
        )

    def _logged_in(self, token: str) -> Response:
        response = RedirectResponse("/", status_code=303)
        guard.set_cookie(response, self._context.settings, token)
        guard.add_security_headers(response)
        return response

    def _logout(self, person: Any) -> Callable[..., Awaitable[Response]]:
        async def logout(request: Request, someone: person, csrf: Annotated[str, Form()] = "") -> Response:
            guard.require_csrf_token(request, someone, csrf)
            await self.auth.log_out(someone)
            response = RedirectResponse("/login", status_code=303)
            response.delete_cookie(guard.cookie_name(self._context.settings), path="/")
            guard.add_security_headers(response)
            response.headers["Clear-Site-Data"] = '"cache"'
            return response

        return logout


async def _until_logged_out(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """End a stream without an error when the person has logged out."""
    try:
        async for text in texts:
            yield text
    except NotLoggedIn:
        yield f"event: bye\ndata: {json.dumps({})}\n\n"


def wants_page(request: Request) -> bool:
    """Whether a person opened this address in a browser; programs get errors as JSON."""
    is_api = request.url.path.startswith("/api/")
    return request.method in ("GET", "HEAD") and not is_api and "text/html" in request.headers.get("accept", "")


def install(app: FastAPI, context: Context) -> Dashboard:
    """Add the dashboard to an app. Run the result beside the server."""
    dashboard = Dashboard(app, context)
    context.recognize = internal_api.recognize
    app.add_exception_handler(NotLoggedIn, guard.redirect_to_login)
    for status in (404, 405):  # 405: a button's address, opened as a page
        app.add_exception_handler(status, dashboard.no_such_page)
    app.include_router(dashboard.router())
    app.include_router(json_api.router(context, dashboard.renderer))
    app.mount("/static", compression.CachedStaticFiles(directory=HERE / "static"), name="static")
    return dashboard
