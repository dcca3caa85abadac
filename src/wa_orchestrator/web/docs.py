"""`/docs`: the HTTP API for people to read and try. Swagger UI comes from this machine, so it is there offline too."""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from markupsafe import escape
from starlette.responses import FileResponse, HTMLResponse, Response

PATH: Final = "/docs"
#: Swagger UI 5 as the package carries it (none of the package's code is used), and our script that starts it. Packages
#: with Swagger UI 4 will not do: it cannot read OpenAPI 3.1.
_SWAGGER: Final = Path(str(files("fastapi_swagger"))) / "resources"
ASSETS: Final = {
    "swagger-ui.css": _SWAGGER / "swagger-ui.css",
    "swagger-ui-bundle.js": _SWAGGER / "swagger-ui-bundle.js",
    "start.js": Path(__file__).parent / "static" / "docs.js",
}
#: Its icons are `data:` pictures; it needs nothing else that a page of ours may not have.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_YEAR_S: Final = 31_536_000


def install(app: FastAPI) -> None:
    """Give an application its page. Addresses are relative: behind a proxy it may live under a prefix."""
    page = _page(app.title)

    async def show() -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"})

    app.add_api_route(PATH, show, include_in_schema=False)
    for name, path in ASSETS.items():
        app.add_api_route(f"{PATH}/{name}", _giver(path), include_in_schema=False)


def _giver(path: Path) -> Callable[[], Awaitable[Response]]:
    async def give() -> Response:
        return FileResponse(path, headers={"Cache-Control": f"public, max-age={_YEAR_S}, immutable"})

    return give


def _address(name: str) -> str:
    """Give the address of an asset as the page names it; it changes with the file, so browsers may keep it."""
    return f"docs/{name}?v={hashlib.sha256(ASSETS[name].read_bytes()).hexdigest()[:12]}"


def _page(title: str) -> str:
    style, library, start = map(_address, ASSETS)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}: HTTP API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{style}">
</head>
<body>
<div id="docs" data-description="openapi.json"><noscript>This page needs JavaScript. The description that it shows is
<a href="openapi.json">openapi.json</a>.</noscript></div>
<script src="{library}"></script>
<script src="{start}"></script>
</body>
</html>
"""
