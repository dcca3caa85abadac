"""What stands between a browser and a page: who it is, whether a change was really meant, and what browsers may do."""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wa_orchestrator.dashboard.login import IDLE_S, Door, Person, administrators_only
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.web.auth import context_of

#: Numbers for bars stand in style attributes (`--n:38`); style sheets and scripts come from files only.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_BACK: Final = '<!doctype html><meta http-equiv="refresh" content="0"><title>…</title>'


class NotLoggedIn(Exception):  # noqa: N818 - named for what it is
    """Nobody is behind this request."""


def cookie_name(settings: Settings) -> str:
    """Give the cookie's name. With TLS, browsers themselves refuse a `__Host-` cookie that another site has set."""
    return "__Host-wao" if is_secure(settings) else "wao"


def is_secure(settings: Settings) -> bool:
    """Whether people come by https."""
    return settings.public_base_url.startswith("https://")


def set_cookie(response: Response, settings: Settings, token: str) -> None:
    """Hand a token to the browser, out of reach of scripts and other sites."""
    response.set_cookie(
        cookie_name(settings),
        token,
        max_age=IDLE_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_secure(settings),
    )


def protect(response: Response) -> None:
    """Add the headers of a page. It is never kept by a browser: it shows phones, and perhaps a code."""
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Cache-Control"] = "no-store"
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"


def came_from_here(request: Request) -> bool:
    """Say whether the request was made by a page of ours, by what the browser says and scripts cannot change."""
    said = request.headers.get("origin")
    if said is None or said == "null":
        return request.headers.get("sec-fetch-site") == "same-origin"
    public = urlsplit(context_of(request).settings.public_base_url).netloc
    return urlsplit(said).netloc in (request.headers.get("host", ""), public)


def masked(token: str) -> str:
    """Write a token so that it looks different in every answer, and its length says nothing about it.

    Pages are compressed, and how well they compress must not depend on what of the token somebody has guessed.
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


def require_meant(request: Request, person: Person, given: str) -> None:
    """Refuse a change that another site may have caused."""
    if not came_from_here(request):
        raise Refused("OTHER_ORIGIN", "This came from another site. Use the dashboard's own pages.", 403)
    if not hmac.compare_digest(_unmasked(given), person.csrf.encode()):
        raise Refused("CSRF_TOKEN_WRONG", "This page is old. Load it again, then try once more.", 403)


def people(door: Door) -> Callable[[Request], Awaitable[Person]]:
    """Make the dependency that gives the person behind a page; nobody is sent to the login."""

    async def dependency(request: Request) -> Person:
        person = await door.recognize(request.cookies.get(cookie_name(context_of(request).settings)))
        if person is None:
            raise NotLoggedIn
        return person

    return dependency


def administrators(door: Door) -> Callable[[Request], Awaitable[Person]]:
    """Make the dependency for pages and changes that viewers may not have."""
    known = people(door)

    async def dependency(request: Request) -> Person:
        person = await known(request)
        administrators_only(person)
        return person

    return dependency


async def to_the_login(request: Request, _error: Exception) -> Response:
    """Answer a request of nobody. A link in a chat arrives without the strict cookie: let the page ask for itself."""
    if request.method != "GET" or request.url.path.startswith("/events"):
        refused = HTMLResponse("", status_code=401)
        protect(refused)
        return refused
    cross = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    response: Response = HTMLResponse(_BACK) if cross else RedirectResponse("/login", status_code=303)
    protect(response)
    return response
