"""Access control of pages: login cookie, CSRF protection, security headers."""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wa_orchestrator.dashboard.login import IDLE_S, Authenticator, Person
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.web.auth import context_of

#: Bars need style attributes (`--n:38`); style sheets and scripts come from files only.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_RELOAD: Final = '<!doctype html><meta http-equiv="refresh" content="0"><title>…</title>'


class NotLoggedIn(Exception):  # noqa: N818 (names what happened)
    """The request has no valid login."""


def cookie_name(settings: Settings) -> str:
    """Return the cookie's name. With TLS, browsers refuse a `__Host-` cookie that another site has set."""
    return "__Host-wao" if is_secure(settings) else "wao"


def is_secure(settings: Settings) -> bool:
    """Whether the dashboard is served over https."""
    return settings.public_base_url.startswith("https://")


def set_cookie(response: Response, settings: Settings, token: str) -> None:
    """Set the login cookie, out of reach of scripts and other sites."""
    response.set_cookie(
        cookie_name(settings),
        token,
        max_age=IDLE_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_secure(settings),
    )


def add_security_headers(response: Response) -> None:
    """Add the security headers of a page. Browsers must not cache it: it shows phones, and perhaps a code."""
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Cache-Control"] = "no-store"
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"


def is_same_origin(request: Request) -> bool:
    """Whether one of our pages made the request, by headers that scripts cannot change."""
    origin = request.headers.get("origin")
    if origin is None or origin == "null":
        return request.headers.get("sec-fetch-site") == "same-origin"
    public = urlsplit(context_of(request).settings.public_base_url).netloc
    return urlsplit(origin).netloc in (request.headers.get("host", ""), public)


def masked(token: str) -> str:
    """Return a token masked with a random pad, different in every response (BREACH).

    Pages are compressed, and their size must not depend on how much of the token an attacker has guessed.
    """
    plain = token.encode()
    pad = secrets.token_bytes(len(plain))
    return (pad + _xor(pad, plain)).hex()


def _unmasked(given: str) -> bytes:
    try:
        raw = bytes.fromhex(given)
    except ValueError:
        return b""
    half = len(raw) // 2
    return _xor(raw[:half], raw[half:])


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def require_same_origin(request: Request) -> None:
    """Refuse a request that another site has made."""
    if not is_same_origin(request):
        raise Refused("OTHER_ORIGIN", "The request came from another site. Use the dashboard's own pages.", 403)


def require_csrf_token(request: Request, person: Person, given: str) -> None:
    """Refuse a change that another site may have caused (CSRF)."""
    require_same_origin(request)
    if not hmac.compare_digest(_unmasked(given), person.csrf.encode()):
        raise Refused("CSRF_TOKEN_WRONG", "This page is outdated. Reload it and try again.", 403)


def require_login(auth: Authenticator) -> Callable[[Request], Awaitable[Person]]:
    """Return the dependency that yields the logged-in person, or raises `NotLoggedIn`."""

    async def dependency(request: Request) -> Person:
        person = await auth.recognize(request.cookies.get(cookie_name(context_of(request).settings)))
        if person is None:
            raise NotLoggedIn
        return person

    return dependency


async def redirect_to_login(request: Request, _error: Exception) -> Response:
    """Redirect to the login. A link in a chat arrives without the strict cookie: then the page reloads itself first."""
    if request.method != "GET" or request.url.path.startswith("/events"):
        refused = HTMLResponse("", status_code=401)
        add_security_headers(refused)
        return refused
    cross = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    response: Response = HTMLResponse(_RELOAD) if cross else RedirectResponse("/login", status_code=303)
    add_security_headers(response)
    return response
