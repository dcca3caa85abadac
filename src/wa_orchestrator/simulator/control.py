"""The remote control of the simulated world: HTTP on loopback, for tests, the demo and the dashboard's scan button."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from wa_orchestrator.simulator.bodies import (
    EnterCode,
    Fault,
    Group,
    OnPhone,
    OnProxy,
    Read,
    Say,
    SayMedia,
    Scan,
    Unlink,
)
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.pool import Pool
from wa_orchestrator.simulator.proxies import DEFAULT_LATENCY_MS, Proxy
from wa_orchestrator.simulator.telegram import Telegram

if TYPE_CHECKING:
    from wa_orchestrator.simulator.server import WhatsApp

#: Errors that mean "there is no such thing".
NOT_THERE = frozenset({"UNKNOWN_PROXY", "NO_MEDIA"})
OK = {"ok": True}
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})

Log = Annotated[bool, Query(description="false leaves the list of single connections empty")]
Phone = Annotated[str, Path(pattern=r"^\+?\d{8,15}$", description="8 to 15 digits")]


class Control:
    """The routes. Everything they do is done by the parts of the world; here is only HTTP."""

    def __init__(
        self,
        whatsapp: WhatsApp,
        pool: Pool,
        telegram: Telegram,
        add_proxy: Callable[[], Awaitable[Proxy]],
    ) -> None:
        self._whatsapp = whatsapp
        self._pool = pool
        self._telegram = telegram
        self._add_proxy = add_proxy

    def app(self) -> ASGIApp:
        """The application, with its guard against web pages."""
        app = FastAPI(title="Simulated world", docs_url="/docs", redoc_url=None)
        app.add_exception_handler(SimulatorError, _refused)
        app.add_exception_handler(RequestValidationError, _invalid)
        app.add_exception_handler(HTTPException, _http_error)
        app.include_router(self._phones())
        app.include_router(self._world())
        return LoopbackOnly(app)

    def _phones(self) -> APIRouter:
        router = APIRouter(prefix="/phones/{phone}", tags=["phones"])
        whatsapp = self._whatsapp

        @router.post("/scan", summary="link a device by its QR")
        async def scan(phone: Phone, body: Scan) -> dict[str, Any]:
            await whatsapp.scan(_digits(phone), body.qr)
            return OK

        @router.post("/enter-code", summary="link a device by its pairing code")
        async def enter_code(phone: Phone, body: EnterCode) -> dict[str, Any]:
            await whatsapp.enter_code(_digits(phone), body.code)
            return OK

        @router.post("/say", summary="send a text")
        async def say(phone: Phone, body: Say) -> dict[str, Any]:
            options = {"expires": body.expires, "by_lid": body.by_lid}
            return {"id": await whatsapp.say(_digits(phone), _chat(body.to), body.text, **options)}

        @router.post("/say-media", summary="send a picture, film, sound or document")
        async def say_media(phone: Phone, body: SayMedia) -> dict[str, Any]:
            content = _decoded(body.data)
            sent = await whatsapp.say_media(
                _digits(phone),
                _chat(body.to),
                body.kind,
                content,
                body.mimetype,
                caption=body.caption,
                name=body.filename,
            )
            return {"id": sent}

        @router.post("/read", summary="look at what came")
        async def read(phone: Phone, body: Read | None = None) -> dict[str, Any]:
            return {"read": await whatsapp.read(_digits(phone), _chat(body.of) if body and body.of else None)}

        @router.post("/unlink", summary="remove linked devices")
        async def unlink(phone: Phone, body: Unlink | None = None) -> dict[str, Any]:
            await whatsapp.unlink(_digits(phone), body.device if body else None)
            return OK

        @router.post("/unregister", summary="leave WhatsApp: the number is not found any more")
        async def unregister(phone: Phone) -> dict[str, Any]:
            whatsapp.unregister(_digits(phone))
            return OK

        @router.get("/inbox", summary="what this phone received, decrypted")
        async def inbox(phone: Phone) -> list[dict[str, Any]]:
            return whatsapp.inbox(_digits(phone))

        @router.get("/inbox/{message_id}/media", summary="the file of a message, decrypted", response_class=Response)
        async def media(phone: Phone, message_id: str) -> Response:
            return Response(whatsapp.media_of(_digits(phone), message_id), media_type="application/octet-stream")

        @router.get("/devices", summary="the devices linked to this phone")
        async def devices(phone: Phone) -> list[dict[str, Any]]:
            return whatsapp.devices(_digits(phone))

        return router

    def _world(self) -> APIRouter:
        router = APIRouter(tags=["world"])
        whatsapp, pool, telegram = self._whatsapp, self._pool, self._telegram

        @router.get("/", summary="this list", response_class=PlainTextResponse)
        async def overview(request: Request) -> str:
            return _overview(request.app)

        @router.get("/arrivals", summary="every message that reached WhatsApp")
        async def arrivals(after: int = 0) -> list[dict[str, Any]]:
            return whatsapp.arrivals(after)

        @router.get("/refusals", summary="messages that WhatsApp answered with an error")
        async def refusals(after: int = 0) -> list[dict[str, Any]]:
            return whatsapp.refusals(after)

        @router.get("/connections", summary="who is connected through what, since when")
        async def connections() -> list[dict[str, Any]]:
            return whatsapp.connections()

        @router.get("/chatstates", summary="who typed to whom")
        async def chatstates() -> list[dict[str, Any]]:
            return whatsapp.chatstates()

        @router.get("/proxies", summary="what passed through each proxy")
        async def proxies(*, log: Log = True) -> list[dict[str, Any]]:
            return [proxy.picture() | ({} if log else {"connections": []}) for proxy in pool]

        @router.post("/proxies", summary="one more proxy", status_code=201)
        async def add_proxy() -> dict[str, Any]:
            return (await self._add_proxy()).picture()

        @router.get("/telegram", summary="what Telegram was sent")
        async def telegrams(after: int = 0) -> list[dict[str, Any]]:
            return telegram.received(after)

        @router.post("/groups", summary="a new group", status_code=201)
        async def make_group(body: Group) -> dict[str, Any]:
            members = [_digits(member) for member in body.members]
            return {"jid": await whatsapp.make_group(_digits(body.phone), body.subject, members)}

        @router.post("/faults", summary="let something go wrong")
        async def fault(body: Fault) -> dict[str, Any]:
            await self._fault(body)
            return OK

        @router.delete("/faults", summary="end all faults")
        async def clear_faults() -> dict[str, Any]:
            await whatsapp.clear_faults()
            telegram.clear_faults()
            await pool.clear_faults()
            return OK

        return router

    async def _fault(self, body: Fault) -> None:
        extra = {_snake(name): value for name, value in (body.model_extra or {}).items()}
        match body.target:
            case OnProxy(proxy=reference):
                latency_ms = extra.get("latency_ms", DEFAULT_LATENCY_MS)
                proxy = self._pool.find(str(reference))
                await proxy.fault(body.kind, seconds=body.seconds, latency_ms=latency_ms)
            case "telegram":
                self._telegram.fault(body.kind, seconds=body.seconds, code=body.code)
            case target:
                phone = _digits(target.phone) if isinstance(target, OnPhone) else None
                await self._whatsapp.fault(body.kind, phone=phone, seconds=body.seconds, code=body.code, **extra)


class LoopbackOnly:
    """Turns away what a web page can send: a request with an `Origin`, or one for a name that is not this machine.

    A page in the operator's browser can reach loopback; a rebound name can even read the answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (reason := refusal(dict(scope["headers"]))):
            response = _error(403, "FORBIDDEN", reason)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def refusal(headers: dict[bytes, bytes]) -> str | None:
    """Why a request with these headers is not served; None when it is."""
    if b"origin" in headers:
        return "Requests from web pages are not served; send it without an Origin header."
    host = re.sub(r":\d+$", "", headers.get(b"host", b"").decode("latin-1").lower())
    if host not in LOOPBACK_HOSTS:
        return f"This control serves 127.0.0.1 and localhost only, not {host!r}."
    return None


def _digits(phone: str) -> str:
    digits = re.sub(r"[+ -]", "", phone)
    if not re.fullmatch(r"\d{8,15}", digits):
        raise SimulatorError("BAD_PHONE", f"{phone!r} is not a phone number: 8 to 15 digits.")
    return digits


def _chat(to: str) -> str:
    """A group keeps its address; a phone becomes digits."""
    return to if "@" in to else _digits(to)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise SimulatorError("BAD_DATA", "data must be base64.") from error


def _overview(app: FastAPI) -> str:
    lines = ["Simulated world: WhatsApp, phones, proxies and Telegram on this machine.", ""]
    for path, methods in sorted(app.openapi()["paths"].items()):
        lines += [f"{method.upper():7}{path:32}{told.get('summary', '')}" for method, told in methods.items()]
    return "\n".join([*lines, "", "Fields of each request: /docs", ""])


def _error(status: int, code: str, text: str) -> JSONResponse:
    return JSONResponse({"code": code, "error": text}, status_code=status)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, SimulatorError):  # registered for this class only; the signature is the framework's
        raise error
    return _error(404 if error.code in NOT_THERE else 409, error.code, error.text)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    texts = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in found]
    return _error(422, "INVALID", "; ".join(texts))


async def _http_error(_request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = "No such path or method; GET / lists what there is." if status in (404, 405) else str(error)
    return _error(status, "NOT_FOUND" if status == 404 else "METHOD_NOT_ALLOWED" if status == 405 else "FAILED", text)
