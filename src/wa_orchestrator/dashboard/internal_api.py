"""Calls the product's own API in process as the logged-in person, so that its rules apply to people too.

The caller is passed in the ASGI scope, which nothing outside the process can write to.
"""

from dataclasses import dataclass
from typing import Any, Final

import httpx
from fastapi import FastAPI, Request
from starlette.types import Receive, Scope, Send

from wa_orchestrator.web.auth import Caller

_CALLER: Final = "wa_orchestrator.caller"
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ApiResponse:
    status: int
    body: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """The stable code of an error; empty for success."""
        return "" if self.ok else str(self._error.get("code", f"HTTP_{self.status}"))

    @property
    def message(self) -> str:
        """The message of an error; all of them if the request has several problems."""
        several = self.errors if self.code == "VALIDATION_FAILED" else []
        return " ".join(str(each["message"]) for each in several) or str(self._error.get("message", ""))

    @property
    def paths(self) -> list[str]:
        return [str(each.get("path", "")) for each in self.errors]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The single problems of a request."""
        return list(self._error.get("errors") or [])

    @property
    def _error(self) -> dict[str, Any]:
        return self.body.get("error", {}) if isinstance(self.body, dict) else {}


async def call(app: FastAPI, caller: Caller, method: str, path: str, json: Any = None) -> ApiResponse:
    async def with_caller(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, _CALLER: caller}, receive, send)

    transport = httpx.ASGITransport(app=with_caller, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://inside", timeout=_TIMEOUT_S) as client:
        response = await client.request(method, path, json=json)
    kind = response.headers.get("content-type", "")
    return ApiResponse(response.status_code, response.json() if "json" in kind and response.content else None)


async def recognize(request: Request) -> Caller | None:
    """Return the caller of an in-process call, for `web.auth`. A cookie alone never authorizes the API."""
    caller = request.scope.get(_CALLER)
    return caller if isinstance(caller, Caller) else None
