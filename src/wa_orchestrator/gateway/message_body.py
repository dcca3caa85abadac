"""Parses the body of a message, and its idempotency key, from the bytes of a request."""

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import from_json

from wa_orchestrator.domain.recipient import is_group
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.request_models import LONGEST_KEY, Problem, SendBody, cross_problems
from wa_orchestrator.web import problems
from wa_orchestrator.web.problems import InvalidRequest

_validate: Final = SendBody.__pydantic_validator__.validate_json
_NOTHING_ELSE: Final = (None,) * 7
#: No part of what makes two requests the same. A field that is newer than stored keys is one only where it is set.
_NO_PART: Final = {"idempotency_key"}
_NO_PART_UNSET: Final = _NO_PART | {"link_preview"}
_serialize: Final = SendBody.__pydantic_serializer__.to_json


def parse(raw: bytes, now_ms: int) -> SendBody:
    """Parse one message; raises `InvalidRequest` with all of its problems."""
    try:
        body: SendBody = _validate(raw)
    except ValidationError as error:
        raise _all_problems(error, raw, now_ms) from None
    if _needs_cross_check(body):
        found = list(cross_problems(from_json(raw), now_ms))
        if found:
            raise InvalidRequest(found)
    return body


def canonical(body: SendBody) -> bytes:
    """Return the form of a message in which two requests are compared."""
    return bytes(_serialize(body, exclude=_NO_PART if body.link_preview else _NO_PART_UNSET))


def idempotency_key(headers: Mapping[bytes, bytes], body: SendBody) -> str | None:
    """Return the idempotency key of a request: the header, or the field."""
    key = header_key(headers)
    if key is None:
        return body.idempotency_key
    if body.idempotency_key is not None and body.idempotency_key != key:
        raise InvalidRequest([_key_problem("The header Idempotency-Key and the field differ. Give one of them.")])
    return key


def header_key(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the header `Idempotency-Key`; raises `InvalidRequest` for one of the wrong length."""
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return None
    key = raw.decode("latin-1").strip()
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidRequest([_key_problem(f"An Idempotency-Key has 1 to {LONGEST_KEY} characters.")])
    return key


def invalid(error: ValidationError) -> Refused:
    """Return the error for a body that fails validation."""
    found = error.errors(include_url=False, include_input=False)
    is_json = all(each["type"] != "json_invalid" for each in found)
    return problems.invalid(found) if is_json else problems.not_json()


def _all_problems(error: ValidationError, raw: bytes, now_ms: int) -> Refused:
    """Return the problems of the fields and those between the fields."""
    found = invalid(error)
    if not isinstance(found, InvalidRequest):
        return found
    listed: list[Problem] = [*found.details["errors"]]  # type: ignore[misc]
    whole = from_json(raw)
    if isinstance(whole, dict):
        paths = {each["path"] for each in listed}
        listed += [each for each in cross_problems(whole, now_ms) if each["path"] not in paths]
    return InvalidRequest(listed)


def _needs_cross_check(body: SendBody) -> bool:
    """Whether the fields may contradict one another; nearly always not, and then nothing is parsed twice."""
    others = (body.text, body.media, body.location, body.contacts, body.poll, body.send_at, body.expires_at)
    is_just_a_text = body.message is not None and others == _NOTHING_ELSE
    return not is_just_a_text or bool(body.mentions) or is_group(body.to)


def _key_problem(text: str) -> Problem:
    return {"path": "idempotencyKey", "code": "idempotency_key", "message": text}
