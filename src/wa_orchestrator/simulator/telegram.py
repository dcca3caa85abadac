"""A simulated Telegram Bot API with `sendMessage`, a record of messages, and faults."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wa_orchestrator.simulator.errors import SimulatorError

LONGEST_TEXT = 4096
KEPT = 10_000
DEFAULT_RETRY_AFTER_S = 5
FAULTS = ("rate_limit", "error", "silence")
BOT = {"id": 1_000_000, "is_bot": True, "first_name": "Simulated bot", "username": "simulated_bot"}


class Telegram:
    """The methods of the Bot API that alerts need."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._received: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._count = self._refused = 0
        self._faults: dict[str, tuple[int | None, asyncio.TimerHandle | None]] = {}
        self._responding = asyncio.Event()
        self._responding.set()
        methods = ["GET", "POST"]
        self.app = Starlette(
            routes=[
                Route("/bot{token}/sendMessage", self._send_message, methods=methods),
                Route("/bot{token}/getMe", self._get_me, methods=methods),
                Route("/{rest:path}", self._not_found, methods=methods),
            ]
        )

    def received(self, after: int = 0) -> list[dict[str, Any]]:
        """Return the messages: `{n, at, chatId, text, …}`, without the bot's token."""
        return [message for message in self._received if message["n"] > after]

    @property
    def refused(self) -> int:
        """Number of requests answered with an error."""
        return self._refused

    # -- faults -------------------------------------------------------------------------------------------------------

    def fault(self, kind: str, *, seconds: float | None = None, code: int | None = None) -> None:
        """Activate a fault until `clear_faults`, or for `seconds`.

        rate_limit  429; `code` is the number of seconds in `retry_after` (5)
        error       `code` as HTTP status (500)
        silence     no response while it lasts
        """
        if kind not in FAULTS:
            raise SimulatorError("UNKNOWN_FAULT", f"Telegram has no fault {kind!r}; it has {', '.join(FAULTS)}.")
        self._end_fault(kind)
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._end_fault, kind)
        self._faults[kind] = (code, timer)
        if kind == "silence":
            self._responding.clear()

    def clear_faults(self) -> None:
        for kind in list(self._faults):
            self._end_fault(kind)

    def _end_fault(self, kind: str) -> None:
        _code, timer = self._faults.pop(kind, (None, None))
        if timer is not None:
            timer.cancel()
        if kind == "silence":
            self._responding.set()

    def _failure(self) -> Response | None:
        if "rate_limit" in self._faults:
            wait_s = self._faults["rate_limit"][0] or DEFAULT_RETRY_AFTER_S
            return self._refuse(429, f"Too Many Requests: retry after {wait_s}", parameters={"retry_after": wait_s})
        if "error" in self._faults:
            return self._refuse(self._faults["error"][0] or 500, "Internal Server Error")
        return None

    # -- methods ------------------------------------------------------------------------------------------------------

    async def _send_message(self, request: Request) -> Response:
        await self._responding.wait()
        if failure := self._failure():
            return failure
        parameters = await _parameters(request)
        chat, text = parameters.get("chat_id"), parameters.get("text")
        if chat in (None, ""):
            return self._refuse(400, "Bad Request: chat_id is empty")
        if not isinstance(text, str) or not text.strip():
            return self._refuse(400, "Bad Request: message text is empty")
        if len(text) > LONGEST_TEXT:
            return self._refuse(400, "Bad Request: message is too long")
        return self._accept(str(chat), text, parameters)

    def _accept(self, chat: str, text: str, parameters: dict[str, Any]) -> Response:
        self._count += 1
        now = self._clock()
        entry = {"n": self._count, "at": now, "chatId": chat, "text": text}
        if mode := parameters.get("parse_mode"):
            entry["parseMode"] = mode
        self._received.append(entry)
        where: dict[str, Any] = {"id": int(chat) if chat.lstrip("-").isdigit() else chat, "type": "private"}
        message = {"message_id": self._count, "from": BOT, "chat": where, "date": int(now), "text": text}
        return JSONResponse({"ok": True, "result": message})

    async def _get_me(self, _request: Request) -> Response:
        await self._responding.wait()
        return self._failure() or JSONResponse({"ok": True, "result": BOT})

    async def _not_found(self, _request: Request) -> Response:
        return self._refuse(404, "Not Found")

    def _refuse(self, status: int, description: str, **more: Any) -> Response:
        self._refused += 1
        body = {"ok": False, "error_code": status, "description": description, **more}
        return JSONResponse(body, status_code=status)


async def _parameters(request: Request) -> dict[str, Any]:
    """Return the parameters from the query, a form or JSON; Telegram accepts all three."""
    parameters: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/json"):
        try:
            body = json.loads(await request.body())
        except ValueError:
            return parameters
        return parameters | body if isinstance(body, dict) else parameters
    return parameters | dict(await request.form())
