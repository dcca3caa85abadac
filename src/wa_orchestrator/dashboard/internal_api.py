"""Calls the product's own API from inside, as the person who pressed a button: its rules hold for people too.

The caller travels in the ASGI scope, which nobody outside the process can write to.
"""

from dataclasses import dataclass
from typing import Any, Final

import httpx
from fastapi import FastAPI, Request
from starlette.types import Receive, Scope, Send

from wa_orchestrator.web.auth import Caller

_MARK: Final = "wa_orchestrator.caller"
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Whether it did what was asked."""
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """The stable code of an error; empty for success."""
        return "" if self.ok else str(self._error.get("code", f"HTTP_{self.status}"))

    @property
    def message(self) -> str:
        """The sentence of an error; all of them where the request had several faults."""
        several = self._error.get("errors") or []
        return " ".join(str(each["message"]) for each in several) or str(self._error.get("message", ""))

    @property
    def paths(self) -> list[str]:
        """Where the faults of a request are."""
        return [str(each.get("path", "")) for each in self._error.get("errors") or []]

    @property
    def _error(self) -> dict[str, Any]:
        return self.body.get("error", {}) if isinstance(self.body, dict) else {}


async def call(app: FastAPI, caller: Caller, method: str, path: str, json: Any = None) -> Answer:
    """Ask the API of `app` for something on behalf of `caller`."""

    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, _MARK: caller}, receive, send)

    transport = httpx.ASGITransport(app=marked, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://inside", timeout=_PATIENCE_S) as client:
        response = await client.request(method, path, json=json)
    kind = response.headers.get("content-type", "")
    return Answer(response.status_code, response.json() if "json" in kind and response.content else None)


async def recognize(request: Request) -> Caller | None:
    """Tell `web.auth` who is behind a call from inside. A cookie alone never opens the API."""
    caller = request.scope.get(_MARK)
    return caller if isinstance(caller, Caller) else None
