"""Access control of pages: login cookie, CSRF protection, security headers."""

import hmac
import secrets
from typing import Annotated, Final, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wa_orchestrator.dashboard.login import IDLE_S, Authenticator, Person
from wa_orchestrator.errors import Refused
from wa_orchestrator.web.auth import context_of

#: Bars need style attributes (`--n:38`); style sheets and scripts come from files only.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
R = TypeVar("R", bound=Response)
_RELOAD: Final = (
    '<!doctype html><script src="/static/reload.js"></script><meta http-equiv="refresh" content="0"><title>…</title>'
)


class NotLoggedIn(Exception):  # noqa: N818 (names what happened)
    """The request has no valid login."""


def cookie_name(request: Request) -> str:
    """Return the cookie's name. With TLS, browsers refuse a `__Host-` cookie that another site has set."""
    is_tls = request.url.scheme == "https" or context_of(request).settings.public_base_url.startswith("https://")
    return "__Host-wao" if is_tls else "wao"


def set_cookie(response: Response, request: Request, token: str) -> None:
    """Set the login cookie, out of reach of scripts and other sites."""
    name = cookie_name(request)
    secure = name.startswith("__Host-")
    response.set_cookie(name, token, max_age=IDLE_S, path="/", httponly=True, samesite="strict", secure=secure)


def delete_cookie(response: Response, request: Request) -> None:
    """Delete the login cookie. Browsers ignore what is said about a `__Host-` cookie unless it is `Secure`."""
    name = cookie_name(request)
    response.delete_cookie(name, path="/", httponly=True, samesite="strict", secure=name.startswith("__Host-"))


def with_security_headers(response: R) -> R:
    """Add the security headers of a page. Browsers must not cache it: it shows phones, and perhaps a code."""
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Cache-Control"] = "no-store"
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    return response


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
    """Refuse a request that another site has made, by headers that scripts cannot change."""
    origin = request.headers.get("origin", "null")
    if origin == "null":
        same = request.headers.get("sec-fetch-site") == "same-origin"
    else:
        public = urlsplit(context_of(request).settings.public_base_url).netloc
        same = _host_of(origin) in (request.headers.get("host", ""), public)
    if not same:
        raise Refused("OTHER_ORIGIN", "The request came from another site. Use the dashboard's own pages.", 403)


def _host_of(origin: str) -> str | None:
    """Return the host and port of an origin; None for what is no URL."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def require_csrf_token(request: Request, person: Person, given: str) -> None:
    require_same_origin(request)
    if not hmac.compare_digest(_unmasked(given), person.csrf.encode()):
        raise Refused("CSRF_TOKEN_WRONG", "This page is outdated. Reload it and try again.", 403)


async def logged_in_person(request: Request) -> Person:
    auth: Authenticator = request.app.state.authenticator
    person = await auth.recognize(request.cookies.get(cookie_name(request)))
    if person is None:
        raise NotLoggedIn
    return person


#: Parameter of routes: `person: LoggedInPerson` requires a login.
LoggedInPerson = Annotated[Person, Depends(logged_in_person)]


async def redirect_to_login(request: Request, _error: Exception) -> Response:
    """Redirect to the login. A link in a chat arrives without the strict cookie: then the page reloads itself first."""
    if request.method != "GET" or request.url.path.startswith("/events"):
        return with_security_headers(HTMLResponse("", status_code=401))
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return with_security_headers(HTMLResponse(_RELOAD))
    return with_security_headers(RedirectResponse("/login", status_code=303))
