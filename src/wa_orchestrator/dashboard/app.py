"""The dashboard's routes: pages, live streams, actions, login, and a JSON API with the same data."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import guard, internal_api
from wa_orchestrator.dashboard.fleet import history
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.guard import LoggedInPerson, NotLoggedIn, with_security_headers
from wa_orchestrator.dashboard.html.compression import CachedStaticFiles, compressed
from wa_orchestrator.dashboard.html.renderer import HERE, THEMES, PageContent, Renderer, View
from wa_orchestrator.dashboard.live import Hub, PageStream, Parts
from wa_orchestrator.dashboard.login import Authenticator, Person, require_administrator, require_operator
from wa_orchestrator.dashboard.pages import (
    anti_ban,
    audit,
    backups,
    campaigns,
    contacts,
    fleet,
    groups,
    inbox,
    jobs,
    live_log,
    messages,
    nodes,
    passkey,
    people,
    proxies,
    radar,
    scan,
    session,
    session_import,
    settings,
)
from wa_orchestrator.dashboard.routes import actions, json_api, simulated_scan
from wa_orchestrator.dashboard.routes.account import AccountRoutes
from wa_orchestrator.dashboard.routes.guest import GuestRoutes
from wa_orchestrator.dashboard.routes.inbox_files import InboxFileRoutes
from wa_orchestrator.dashboard.routes.inbox_presence import PresenceRoutes
from wa_orchestrator.dashboard.routes.login import LoginRoutes
from wa_orchestrator.dashboard.routes.session_import import MovingInRoutes
from wa_orchestrator.domain.access.permissions import Everything
from wa_orchestrator.errors import Refused
from wa_orchestrator.loop import Loop
from wa_orchestrator.orchestrator.api import exports
from wa_orchestrator.orchestrator.api.backups import backup_file
from wa_orchestrator.texts.catalogue import languages
from wa_orchestrator.web import problems
from wa_orchestrator.web.exported_rows import FileFormat

Show = Callable[[Renderer, View, Mapping[str, str]], Awaitable[PageContent | None]]
#: Every page by its path: its name, what it shows, and its live parts.
PAGES: Final[Mapping[str, tuple[str, Show, Parts]]] = {
    "/": ("fleet", fleet.show, fleet.parts),
    "/scan": ("scan", scan.show, scan.parts),
    "/import": ("import", session_import.show, session_import.parts),
    "/link/{id}/passkey": ("passkey", passkey.show, passkey.parts),
    "/sessions/{id}": ("session", session.show, session.parts),
    "/sessions/{id}/groups": ("groups", groups.show, groups.parts),
    "/inbox": ("inbox", inbox.show, inbox.parts),
    "/contacts": ("contacts", contacts.show, contacts.parts),
    "/messages": ("messages", messages.show, messages.parts),
    "/campaigns": ("campaigns", campaigns.show_all, campaigns.list_parts),
    "/campaigns/{id}": ("campaign", campaigns.show_one, campaigns.parts),
    "/proxies": ("proxies", proxies.show, proxies.parts),
    "/anti-ban": ("anti-ban", anti_ban.show, anti_ban.parts),
    "/live-log": ("live-log", live_log.show, live_log.parts),
    "/radar": ("radar", radar.show, radar.parts),
    "/backups": ("backups", backups.show, backups.parts),
    "/jobs": ("jobs", jobs.show, jobs.parts),
    "/nodes": ("nodes", nodes.show, nodes.parts),
    "/people": ("people", people.show, people.parts),
    "/audit": ("audit", audit.show, audit.parts),
    "/settings": ("settings", settings.show, settings.parts),
}
LIVE: Final = {name: parts for name, _, parts in PAGES.values()} | {"first": fleet.first_parts}
#: Addresses of the first dashboard, which people have as bookmarks.
OLD_ADDRESSES: Final[Mapping[str, str]] = {"/index.html": "/", "/scan.html": "/scan", "/live-log.html": "/live-log"}
ADMINISTRATORS_ONLY: Final = frozenset({"settings", "jobs", "people", "audit", "passkey"})
#: About the whole fleet: closed to people who see some sessions only.
FLEET_ONLY: Final = frozenset({"proxies", "radar", "backups", "campaigns", "campaign", "nodes", "import"})
#: They show each person something else: what is assigned to them, which account is theirs.
PERSONAL: Final = frozenset({"inbox", "people"})
_YEAR_S: Final = 31_536_000
_CURSOR: Final = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
log = structlog.get_logger(__name__)


class Dashboard:
    """The dashboard. `run` keeps open pages up to date."""

    def __init__(self, app: FastAPI, context: Context) -> None:
        self._app = app
        self._context = context
        reader = SnapshotReader(context)
        self.hub = Hub(context, reader)
        self.renderer = Renderer(context, reader)
        self.auth = Authenticator(context)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.hub.run())
            tasks.create_task(Loop("dashboard_history", partial(history.record, self._context.scripts)).run())

    def router(self) -> APIRouter:
        routes = APIRouter(include_in_schema=False)
        for path, (name, show, _) in PAGES.items():
            routes.get(path, response_class=HTMLResponse)(self._page(name, show))
        for old in OLD_ADDRESSES:
            routes.get(old)(_redirect_old_address)
        routes.get("/events/ui", response_class=StreamingResponse)(self._stream)
        routes.get("/backups/{backup_id}/file", response_class=FileResponse)(self._backup_file)
        routes.get("/files/{what}", response_class=StreamingResponse)(self._file)
        routes.post("/do/{action}")(self._do)
        routes.post("/choose")(self._choose)
        routes.include_router(LoginRoutes(self.renderer, self.auth))
        routes.include_router(GuestRoutes(self._context, self.renderer))
        routes.include_router(InboxFileRoutes(self._context))
        routes.include_router(MovingInRoutes(self._app, self.renderer))
        routes.include_router(PresenceRoutes(self._context, self.renderer))
        routes.include_router(AccountRoutes(self._context, self.renderer, self.auth))
        return routes

    # -- pages

    def _page(self, name: str, show: Show) -> Callable[..., Awaitable[Response]]:
        async def page(request: Request, person: LoggedInPerson) -> Response:
            cursor = self.hub.cursor
            await self.hub.catch_up()
            view = await self.renderer.view(request, person, name)
            if not _may_open(person, name):
                response = self.renderer.page(view, PageContent("refused.html"), status=403)
            elif shown := await show(self.renderer, view, dict(request.query_params) | dict(request.path_params)):
                response = self.renderer.page(view, shown, cursor=cursor)
            else:
                response = self.renderer.page(view, PageContent("gone.html"), status=404)
            return compressed(request, response)

        return page

    async def _stream(self, request: Request, person: LoggedInPerson) -> Response:
        query = dict(request.query_params)
        page = query.get("page", "")
        if page not in LIVE or not _may_open(person, page):
            raise Refused("NO_SUCH_PAGE", "There is no such page.", 404)
        language = self.renderer.language_of(request)
        token = request.cookies.get(guard.cookie_name(request))

        async def check_login() -> None:
            now = await self.auth.look(token)
            if now is None or not _may_open(now, page):  # logged out elsewhere, or another role: stop the stream
                raise NotLoggedIn

        after = request.headers.get("last-event-id") or query.get("at", "")
        stream = PageStream(
            self.hub,
            self.renderer,
            query,
            partial(self.renderer.view_as, person, page, language),
            LIVE[page],
            sight=(language, person.role, person.reach, person.caller.key_id if page in PERSONAL else ""),
            check_login=check_login,
        )
        events = _until_logged_out(stream.run(after if _CURSOR.fullmatch(after) else ""))
        response = with_security_headers(StreamingResponse(events, media_type="text/event-stream"))
        response.headers["X-Accel-Buffering"] = "no"
        return response

    async def _backup_file(self, backup_id: str, person: LoggedInPerson) -> Response:
        """Hand a backup over to an administrator; the audit log says so."""
        require_administrator(person)
        return with_security_headers(await backup_file(self._context, person.caller, backup_id))

    async def _file(self, what: str, person: LoggedInPerson) -> Response:
        """Hand a list over as CSV: of sessions that the person sees, or of the whole fleet."""
        require_operator(person)
        if what not in ("messages", "sessions", "opt-outs", "audit"):
            raise Refused("NO_SUCH_PAGE", "There is no such page.", 404)
        if what == "audit":
            require_administrator(person)
        if what == "opt-outs" and not isinstance(person.reach, Everything):
            raise Refused("KEY_LIMITED", "This is about all sessions.", 403)
        match what:
            case "messages":
                made = await exports.messages_file(self._context, person.caller, exports.MessageExport())
            case "sessions":
                made = await exports.sessions_file(self._context, person.caller, FileFormat.CSV)
            case "opt-outs":
                made = await exports.opt_outs_file(self._context, person.caller, FileFormat.CSV)
            case _:
                made = await exports.audit_file(self._context, person.caller, FileFormat.CSV)
        return with_security_headers(made)

    async def no_such_page(self, request: Request, error: Exception) -> Response:
        """Answer an unknown address: with a page for people, with JSON for programs. Needs no login."""
        is_api = request.url.path.startswith("/api/")
        wants_page = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
        if is_api or not wants_page:
            return problems.to_response(error)
        return compressed(request, self.renderer.public_page(request, "missing.html", 404))

    # -- buttons

    async def _do(self, request: Request, action: str, person: LoggedInPerson) -> Response:
        data = await request.form()
        view = await self.renderer.view(request, person, "")
        status, error = 200, {}
        try:
            given = request.headers.get("x-csrf-token") or str(data.get("csrf", ""))
            guard.require_csrf_token(request, person, given)
            require_operator(person)
            outcome = await self._perform(action, data, person, view)
            self.hub.wake()
        except Refused as refusal:  # in the person's language, with its code for scripts
            outcome = actions.Outcome("error", actions.error_sentence(refusal.code, refusal.text, view))
            status, error = refusal.status, {"error": {"code": refusal.code, "message": refusal.text}}
        body = {
            "state": outcome.state,
            "toast": str(self.renderer.macros.toast(view, outcome)),
            "go": outcome.go,
            "secret": outcome.secret,
            "left": outcome.left,
            "parts": {name: str(part) for name, part in outcome.parts.items()},
        }
        return JSONResponse(body | error, status_code=status, headers={"Cache-Control": "no-store"})

    async def _perform(self, name: str, data: Any, person: Person, view: View) -> actions.Outcome:
        if name == simulated_scan.ACTION:
            phone = scan.phone_in({"phone": str(data.get("phone", ""))})
            if not view.sees(str(data.get("id", ""))):
                raise Refused("NO_SUCH_SESSION", "There is no such session.", 404)
            return await simulated_scan.scan(self._context, str(data.get("id", "")), phone, view)
        action = actions.find(name)
        forms = actions.forms(action, data)
        answers = [await internal_api.call(self._app, person.caller, *action.call(form)) for form in forms]
        outcome = actions.outcome_of(name, action, forms, answers, view, known_as=view.known_as)
        if name == "backup-check" and outcome.state == "ok":
            plan = backups.plan_part(self.renderer, view, forms[0], answers[0].body)
            return replace(outcome, parts={"restore-plan": plan})
        if name != "delete" or len(forms) != 1 or outcome.state != "ok":
            return outcome
        # The deletion of one session can be undone while its credentials are in the trash.
        trash = await internal_api.call(self._app, person.caller, "GET", "/api/v1/trash")
        mine = [each for each in (trash.body or {}).get("trash", []) if each["sessionId"] == forms[0].get("id")]
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


def _may_open(person: Person, page: str) -> bool:
    if page in ADMINISTRATORS_ONLY:
        return person.is_administrator
    return page not in FLEET_ONLY or isinstance(person.reach, Everything)


async def _redirect_old_address(request: Request) -> Response:
    path, query = OLD_ADDRESSES[request.url.path], request.url.query
    return RedirectResponse(f"{path}?{query}" if query else path, 308)


async def _until_logged_out(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """End a stream without an error when the person has logged out."""
    try:
        async for text in texts:
            yield text
    except NotLoggedIn:
        yield "event: bye\ndata: {}\n\n"


def install(app: FastAPI, context: Context) -> Dashboard:
    """Add the dashboard to an app. Run the result beside the server."""
    dashboard = Dashboard(app, context)
    context.recognize = internal_api.recognize
    app.state.authenticator = dashboard.auth
    app.add_exception_handler(NotLoggedIn, guard.redirect_to_login)
    for status in (404, 405):  # 405: a button's address, opened as a page
        app.add_exception_handler(status, dashboard.no_such_page)
    app.include_router(dashboard.router())
    app.include_router(json_api.DashboardRoutes(context, dashboard.renderer), responses=problems.responses())
    app.mount("/static", CachedStaticFiles(directory=HERE / "static"), name="static")
    return dashboard
