"""How errors leave: `{"error": {"code", "message", …}}`, with a stable code and a text that says what to do."""

from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException

from wa_orchestrator.errors import Broken, OrchestratorError, Refused, Unavailable
from wa_orchestrator.logs import redact_text
from wa_orchestrator.settings import validation_messages

log = structlog.get_logger(__name__)

_NOT_JSON = "The body is not JSON. Send an object with Content-Type application/json."
_BY_STATUS = {
    400: ("BAD_JSON", _NOT_JSON),  # FastAPI's own word for a body that is not even text
    404: ("NOT_FOUND", "There is nothing here. The list of all routes is at /docs."),
    413: ("BODY_TOO_LONG", "The body is too long. Send less."),
    405: ("METHOD_NOT_ALLOWED", "This address does not take this method. The list of all routes is at /docs."),
}


class Body(BaseModel):
    """What a request body is made of: camelCase outside, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)


class Answer(BaseModel):
    """What an answer is made of: camelCase outside."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class ErrorDetail(BaseModel):
    """One error. Some codes carry further fields."""

    model_config = ConfigDict(extra="allow")
    code: str = Field(examples=["NO_SUCH_SESSION"])
    message: str = Field(examples=["There is no session worker_9. GET /api/sessions lists them."])


class ErrorAnswer(BaseModel):
    """How every error looks."""

    error: ErrorDetail


class Invalid(Refused):
    """The request's shape is wrong; `errors` has all problems at once, each with its path."""

    def __init__(self, errors: Sequence[dict[str, str]]) -> None:
        super().__init__(
            "VALIDATION_FAILED", "The request is not right; `errors` says where.", 422, errors=list(errors)
        )


def invalid(errors: Sequence[Any]) -> Invalid:
    """Turn pydantic's errors (`error.errors()`) into ours. Values are not repeated: they may be secrets."""
    return Invalid([_problem(each) for each in errors])


def _problem(error: Any) -> dict[str, str]:
    place = [str(part) for part in error["loc"] if part not in ("body",)]
    if place and place[0] in ("query", "path", "header"):
        place = place[1:]
    return {"path": ".".join(place), "code": str(error["type"]), "message": validation_messages.sentence(error)}


def answer(error: OrchestratorError) -> JSONResponse:
    """Give the response for an error of ours."""
    status = getattr(error, "status", 500)
    body: dict[str, Any] = {"error": {"code": error.code, "message": error.text, **error.details}}
    if error.code == "FENCED":
        body["code"] = error.code  # where workers look first
    headers = {"Retry-After": str(error.details["retryAfterS"])} if "retryAfterS" in error.details else None
    return JSONResponse(body, status_code=status, headers=headers)


def responses(**codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route for OpenAPI: `responses(NO_SUCH_SESSION=404)`."""
    by_status: dict[int | str, list[str]] = {}
    for code, status in codes.items():
        by_status.setdefault(status, []).append(code)
    return {status: {"model": ErrorAnswer, "description": ", ".join(names)} for status, names in by_status.items()}


async def _known(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OrchestratorError)  # noqa: S101 (it is registered for these only)
    if isinstance(error, Broken):
        log.error("request.broken", code=error.code, exc_info=error)
        return answer(Broken("Something is wrong with the server; its log says what."))
    return answer(error)


async def _wrong_shape(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 (it is registered for these only)
    if any(each["type"] == "json_invalid" for each in error.errors()):
        return answer(Refused("BAD_JSON", _NOT_JSON))
    return answer(invalid(error.errors()))


async def _store_away(_request: Request, error: Exception) -> JSONResponse:
    log.warning("request.store_away", error=redact_text(str(error)))
    return answer(Unavailable("STORE_UNAVAILABLE", "Redis does not answer just now. Try again.", retryAfterS=2))


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 (it is registered for these only)
    code, text = _BY_STATUS.get(error.status_code, (f"HTTP_{error.status_code}", str(error.detail)))
    response = answer(Refused(code, text, error.status_code))
    response.headers.update(error.headers or {})
    return response


async def _unexpected(_request: Request, error: Exception) -> JSONResponse:
    log.error("request.broken", exc_info=error)
    return answer(Broken("Something is wrong with the server; its log says what."))


def install(app: FastAPI) -> None:
    """Let `app` answer every error in this form."""
    app.add_exception_handler(OrchestratorError, _known)
    app.add_exception_handler(RequestValidationError, _wrong_shape)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RedisError, _store_away)
    app.add_exception_handler(Exception, _unexpected)
