"""Error responses: `{"error": {"code", "message", …}}`, with a stable code and a text that says what to do."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from wa_orchestrator.errors import Broken, OrchestratorError, Refused, Unavailable
from wa_orchestrator.logs import redact_text
from wa_orchestrator.settings import validation_messages
from wa_orchestrator.store.errors import RedisError

log = structlog.get_logger(__name__)

_NOT_JSON = "The body is not JSON. Send an object with Content-Type application/json."
_BY_STATUS = {
    400: ("BAD_JSON", _NOT_JSON),  # what FastAPI raises for a body that is not UTF-8
    404: ("NOT_FOUND", "There is no such route. All routes are listed at /docs."),
    413: ("BODY_TOO_LONG", "The body is too long. Send less."),
    405: ("METHOD_NOT_ALLOWED", "This route does not support this method. All routes are listed at /docs."),
}
#: Codes that any route with an API key may answer.
_ANY_ROUTE = {
    "BAD_JSON": 400, "API_KEY_MISSING": 401, "API_KEY_UNKNOWN": 401, "API_KEY_AMBIGUOUS": 401, "SCOPE_MISSING": 403,
    "BODY_TOO_LONG": 413, "VALIDATION_FAILED": 422, "RATE_LIMITED": 429, "BROKEN": 500, "STORE_UNAVAILABLE": 503,
}  # fmt: skip


class FieldError(BaseModel):
    """What is wrong with one field of a request."""

    path: str = Field(description="Where the field is; empty for the body as a whole.", examples=["media.url"])
    code: str = Field(examples=["missing"])
    message: str = Field(description="What to do, for a person.")


class ErrorDetail(BaseModel):
    """An error. Some codes carry further fields."""

    model_config = ConfigDict(extra="allow")
    code: str = Field(description="Stable: programs may compare it.", examples=["NO_SUCH_SESSION"])
    message: str = Field(
        description="What to do, for a person.",
        examples=["There is no session worker_9. GET /api/sessions lists them."],
    )
    errors: list[FieldError] = Field([], description="With VALIDATION_FAILED: every field that is wrong.")


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


#: By reference. For each `model` of each route FastAPI would build a validator, which takes most of the server's start.
_CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}}


def schemas() -> dict[str, Any]:
    """Return the schemas of an error response for OpenAPI."""
    whole = ErrorResponse.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**whole.pop("$defs"), "ErrorResponse": whole}


class InvalidRequest(Refused):
    """The request has the wrong shape; `errors` lists all problems, each with its path."""

    def __init__(self, errors: Sequence[dict[str, str]]) -> None:
        text = "The request is not valid; `errors` lists the fields to correct."
        super().__init__("VALIDATION_FAILED", text, 422, errors=list(errors))


def invalid(errors: Sequence[Any]) -> InvalidRequest:
    """Convert pydantic's errors (`error.errors()`). Values are not repeated: they may be secrets."""
    return InvalidRequest([_problem(each) for each in errors])


def _problem(error: Any) -> dict[str, str]:
    place = [str(part) for part in error["loc"] if part != "body"]
    if place and place[0] in ("query", "path", "header"):
        place = place[1:]
    return {"path": ".".join(place), "code": str(error["type"]), "message": validation_messages.sentence(error)}


def answer(error: OrchestratorError) -> JSONResponse:
    status = getattr(error, "status", 500)
    body: dict[str, Any] = {"error": {"code": error.code, "message": error.text, **error.details}}
    if error.code == "FENCED":
        body["code"] = error.code  # where workers look first
    headers = {"Retry-After": str(error.details["retryAfterS"])} if "retryAfterS" in error.details else None
    return JSONResponse(body, status_code=status, headers=headers)


def responses(**codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route for OpenAPI, `responses(NO_SUCH_SESSION=404)`, with those that any route has."""
    return _described(_ANY_ROUTE | codes)


def public_responses() -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route without an API key."""
    return _described({"BROKEN": 500, "STORE_UNAVAILABLE": 503})


def _described(codes: Mapping[str, int]) -> dict[int | str, dict[str, Any]]:
    by_status: dict[int | str, list[str]] = {}
    for code, status in codes.items():
        by_status.setdefault(status, []).append(code)
    return {status: {"description": ", ".join(names), "content": _CONTENT} for status, names in by_status.items()}


def to_response(error: Exception) -> JSONResponse:
    """Return the response for any error, and log what the client is not told."""
    match error:
        case ClientDisconnect():  # nobody reads the answer, and nothing is wrong with us
            return answer(Refused("CLIENT_DISCONNECTED", "The client hung up.", 400))
        case HTTPException() if isinstance(error.__cause__, ClientDisconnect):
            return to_response(error.__cause__)
        case RequestValidationError() if any(each["type"] == "json_invalid" for each in error.errors()):
            return answer(not_json())
        case RequestValidationError():
            return answer(invalid(error.errors()))
        case HTTPException():
            code, text = _BY_STATUS.get(error.status_code, (f"HTTP_{error.status_code}", str(error.detail)))
            response = answer(Refused(code, text, error.status_code))
            response.headers.update(error.headers or {})
            return response
        case RedisError():
            log.warning("request.redis_unavailable", error=redact_text(str(error)))
            return answer(Unavailable("STORE_UNAVAILABLE", "Redis does not respond. Try again.", retryAfterS=2))
        case OrchestratorError() if not isinstance(error, Broken):
            return answer(error)
        case _:
            log.error("request.failed", exc_info=error)
            return answer(Broken("The server failed; its log has the details."))


def not_json() -> Refused:
    return Refused("BAD_JSON", _NOT_JSON)


async def _handle(_request: Request, error: Exception) -> JSONResponse:
    return to_response(error)


def install(app: FastAPI) -> None:
    for kind in (ClientDisconnect, OrchestratorError, RequestValidationError, HTTPException, RedisError, Exception):
        app.add_exception_handler(kind, _handle)
