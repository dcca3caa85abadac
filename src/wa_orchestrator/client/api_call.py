"""One request to the API, as it is described before a transport sends it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request; `options` are httpx's (`json`, `params` …). `may_repeat`: it is idempotent and may be sent again.

    `timeout_s` is for a request whose answer takes longer than those of most; None waits as long as for these.
    """

    method: str
    path: str
    may_repeat: bool
    options: Mapping[str, Any]
    timeout_s: float | None = None


def get(path: str, query: Mapping[str, Any] | None = None, **headers: str) -> ApiCall:
    return ApiCall("GET", path, may_repeat=True, options={"params": given(query or {}), "headers": headers})


def delete(path: str, **query: Any) -> ApiCall:
    return ApiCall("DELETE", path, may_repeat=True, options={"params": given(query)})


def post(path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float | None = None) -> ApiCall:
    options: dict[str, Any] = {} if body is None else {"json": given(body)}
    return ApiCall("POST", path, may_repeat=False, options=options, timeout_s=timeout_s)


def put(path: str, body: Mapping[str, Any]) -> ApiCall:
    return ApiCall("PUT", path, may_repeat=True, options={"json": given(body)})


def patch(path: str, changes: Mapping[str, Any]) -> ApiCall:
    """None is sent as null, which removes the value."""
    body = {_camel_case(name): value for name, value in changes.items()}
    return ApiCall("PATCH", path, may_repeat=True, options={"json": body})


def send_once(path: str, body: Mapping[str, Any], idempotency_key: str | None) -> ApiCall:
    headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
    return ApiCall("POST", path, may_repeat=True, options={"json": given(body), "headers": headers})


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None, named as in JSON: `session_id` is `sessionId`."""
    return {_camel_case(name): value for name, value in fields.items() if value is not None}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def in_path(name: str) -> str:
    return quote(name, safe="")
