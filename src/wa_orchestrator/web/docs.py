"""`/docs`: Swagger UI, served from this machine so that it works offline."""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from markupsafe import escape
from starlette.responses import FileResponse, HTMLResponse, Response

PATH: Final = "/docs"
#: Swagger UI 5 from the package (none of its Python code is used), and our script that starts it. Swagger UI 4 cannot
#: read OpenAPI 3.1.
_SWAGGER: Final = Path(str(files("fastapi_swagger"))) / "resources"
ASSETS: Final = {
    "swagger-ui.css": _SWAGGER / "swagger-ui.css",
    "swagger-ui-bundle.js": _SWAGGER / "swagger-ui-bundle.js",
    "start.js": Path(__file__).parent / "static" / "docs.js",
}
#: Its icons are `data:` URLs; it needs nothing else that the default policy forbids.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_YEAR_S: Final = 31_536_000


def install(app: FastAPI) -> None:
    """Add the page to an application. Addresses are relative: behind a proxy it may have a prefix."""
    page = _page(app.title)

    async def show() -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"})

    app.add_api_route(PATH, show, include_in_schema=False)
    for name, path in ASSETS.items():
        app.add_api_route(f"{PATH}/{name}", _serve(path), include_in_schema=False)


def _serve(path: Path) -> Callable[[], Awaitable[Response]]:
    async def serve() -> Response:
        return FileResponse(path, headers={"Cache-Control": f"public, max-age={_YEAR_S}, immutable"})

    return serve


def _address(name: str) -> str:
    """Return the URL of an asset; it changes with the file, so browsers may cache it."""
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
