"""Routes of login and logout: password, one-time link, second factor."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from wa_orchestrator.dashboard import guard
from wa_orchestrator.dashboard.guard import LoggedInPerson, with_security_headers
from wa_orchestrator.dashboard.html.compression import compressed
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.login import Authenticator, LoginClient, NeedsCode, TooManyAttempts, WrongPassword

#: A field of a form that may be missing.
FormText = Annotated[str, Form()]
log = structlog.get_logger(__name__)


class LoginRoutes(APIRouter):
    def __init__(self, renderer: Renderer, auth: Authenticator) -> None:
        super().__init__(include_in_schema=False)
        self._renderer, self._auth = renderer, auth
        self.get("/login")(self._login_page)
        self.post("/login")(self._login)
        self.get("/login/code")(self._code_page)
        self.post("/login/code")(self._code)
        self.get("/enter")(self._enter_page)
        self.post("/enter")(self._enter)
        self.post("/logout")(self._logout)

    async def _login_page(self, request: Request) -> Response:
        return self._page(request, "login.html")

    async def _enter_page(self, request: Request) -> Response:
        return self._page(request, "enter.html")

    async def _code_page(self, request: Request) -> Response:
        if not await self._auth.is_pending(self._token(request)):
            return with_security_headers(RedirectResponse("/login", status_code=303))
        return self._page(request, "login.html", needs_code=True)

    def _page(self, request: Request, template: str, status: int = 200, **values: object) -> Response:
        return compressed(request, self._renderer.public_page(request, template, status, **values))

    async def _login(self, request: Request, password: FormText = "", name: FormText = "") -> Response:
        guard.require_same_origin(request)
        client = client_of(request)
        outcome = await self._auth.log_in(password, name=name, address=client.address, browser=client.browser)
        return self._answer(request, outcome, "/", name=name)

    async def _code(self, request: Request, code: FormText = "") -> Response:
        """Take the second factor of a login that waits for it."""
        guard.require_same_origin(request)
        outcome = await self._auth.confirm(self._token(request), code[:40], client_of(request))
        if outcome is None:  # it took too long
            return with_security_headers(RedirectResponse("/login", status_code=303))
        return self._answer(request, outcome, "/", needs_code=True)

    async def _enter(self, request: Request, token: FormText = "") -> Response:
        guard.require_same_origin(request)
        entered = await self._auth.log_in_by_link(token, client_of(request))
        if entered is None:
            return self._page(request, "login.html", 401, used_link=True)
        return self._answer(request, entered, "/")

    def _answer(
        self, request: Request, outcome: str | NeedsCode | WrongPassword | TooManyAttempts, go: str, **values: object
    ) -> Response:
        match outcome:
            case WrongPassword(wait_s):
                log.warning("login.refused", address=client_of(request).address, next_takes_s=wait_s)
                return self._page(request, "login.html", 401, wait_s=wait_s, **values)
            case TooManyAttempts(seconds):
                response = self._page(request, "login.html", 429, locked_s=seconds, **values)
                response.headers["Retry-After"] = str(seconds)
                return response
            case NeedsCode(token):
                return self._logged_in(request, token, "/login/code")
            case token:
                return self._logged_in(request, token, go)

    def _logged_in(self, request: Request, token: str, go: str) -> Response:
        response = with_security_headers(RedirectResponse(go, status_code=303))
        guard.set_cookie(response, request, token)
        return response

    async def _logout(self, request: Request, person: LoggedInPerson, csrf: FormText = "") -> Response:
        guard.require_csrf_token(request, person, csrf)
        await self._auth.log_out(person)
        response = with_security_headers(RedirectResponse("/login", status_code=303))
        guard.delete_cookie(response, request)
        response.headers["Clear-Site-Data"] = '"cache"'
        return response

    def _token(self, request: Request) -> str | None:
        return request.cookies.get(guard.cookie_name(request))


def client_of(request: Request) -> LoginClient:
    address = request.client.host if request.client else "?"
    return LoginClient(address, request.headers.get("user-agent", ""))
