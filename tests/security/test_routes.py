"""The walk over every route: none is open that was not meant to be, and every id is checked."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import Mount

from scripts import conformance
from tests.orchestrator.fakes import API_KEY
from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import Scope
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.server.bootstrap import ControlApps
from wa_orchestrator.store.access import api_keys

#: Routes that anybody may use, each with its reason. A new route is not among them: this list is the decision.
PUBLIC = {
    ("GET", "/health"): "probes have no key",
    ("HEAD", "/health"): "probes have no key",
    ("GET", "/ready"): "probes have no key",
    ("HEAD", "/ready"): "probes have no key",
    ("GET", "/metrics"): "SERVE_METRICS closes it; shows no phone and no secret",
    ("GET", "/docs"): "SERVE_DOCS closes it; shows no data",
    ("GET", "/docs/swagger-ui.css"): "part of /docs",
    ("GET", "/docs/swagger-ui-bundle.js"): "part of /docs",
    ("GET", "/docs/start.js"): "part of /docs",
    ("GET", "/openapi.json"): "part of /docs",
    ("HEAD", "/openapi.json"): "part of /docs",
    ("GET", "/static"): "style sheets, scripts and pictures of the pages",
    ("GET", "/login"): "the login itself",
    ("POST", "/login"): "the login itself",
    ("GET", "/login/code"): "the second step of the login; without the first it redirects to it",
    ("POST", "/login/code"): "the second step of the login; without the first it redirects to it",
    ("GET", "/enter"): "the login by link",
    ("POST", "/enter"): "the login by link",
    ("POST", "/choose"): "language and theme of a browser; checks the origin",
    ("GET", "/l/{token}"): "the page of a one-time link; a wrong token shows nothing and is counted",
    ("POST", "/l/{token}"): "its button; checks the origin and the token",
    ("GET", "/index.html"): "an old address; redirects to a page that needs a login",
    ("GET", "/scan.html"): "an old address",
    ("GET", "/live-log.html"): "an old address",
}
_ID = {"session_id": "w1", "message_id": "m_0123456789abcdef01", "proxy_id": "p_1a2b3c4d5e"}


def routes_of(app: FastAPI) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and route of everything that an application serves."""
    for found in iter_route_contexts(app.routes):
        route: Any = found
        if isinstance(getattr(route, "original_route", None), Mount) or not getattr(route, "methods", None):
            yield "GET", route.path, route
            continue
        for method in sorted(route.methods):
            yield method, route.path, route


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda match: _ID.get(match[1], "x1"), path)


def wrong_credentials(context: Context) -> dict[str, list[tuple[str, str]]]:
    """What a request may carry that must not open anything."""
    other = tokens.mint(context.settings, "other", 1).token
    return {
        "nothing": [],
        "an empty key": [("X-API-Key", "")],
        "an unknown key": [("X-API-Key", "wao_unknown-unknown-unknown")],
        "the key with a space": [("X-API-Key", API_KEY + " x")],
        "the key in another case": [("X-API-Key", API_KEY.upper())],
        "a part of the key": [("X-API-Key", API_KEY[:-1])],
        "two keys": [("X-API-Key", API_KEY), ("X-API-Key", "wao_unknown-unknown-unknown")],
        "another key as a token": [("X-API-Key", API_KEY), ("Authorization", "Bearer wao_unknown-unknown-unknown")],
        "two keys the other way round": [("X-API-Key", "wao_unknown-unknown-unknown"), ("X-API-Key", API_KEY)],
        "two bearers": [("Authorization", "Bearer x"), ("Authorization", f"Bearer {API_KEY}")],
        "basic": [("Authorization", f"Basic {API_KEY}")],
        "a bearer that is unknown": [("Authorization", "Bearer wao_unknown-unknown-unknown")],
        "a worker's token": [("Authorization", f"Bearer {other}")],
        "a forged worker's token": [("Authorization", "Bearer wwt_w1.1." + "0" * 64)],
        "a cookie": [("Cookie", "wao=0123456789; __Host-wao=0123456789")],
        "a caller in a header": [("wa_orchestrator.caller", "admin"), ("X-Caller", "admin")],
        "the machine's own address": [("X-Forwarded-For", "127.0.0.1"), ("X-Real-IP", "127.0.0.1")],
        "bytes": [("X-API-Key", "\xff\xfe")],
    }


async def test_every_route_refuses_every_wrong_credential(
    context: Context, apps: ControlApps, stranger: httpx.AsyncClient
) -> None:
    context.settings = context.settings.model_copy(update={"public_rate_per_minute": 10**9})
    opened = []
    for app in (apps.main, apps.workers):
        stranger._transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        for method, path, _ in routes_of(app):
            if (method, path) in PUBLIC:
                continue
            for name, headers in wrong_credentials(context).items():
                raw = [(key.encode(), value.encode("latin-1")) for key, value in headers]
                answer = await stranger.request(method, filled(path), headers=raw, content=b"{}")
                # 303: a page sends people to the login. 403: the token of another session.
                if answer.status_code not in (401, 403) and answer.headers.get("location") != "/login":
                    opened.append((method, path, name, answer.status_code))
    assert opened == []


def test_the_list_of_public_routes_names_only_routes_that_exist(apps: ControlApps) -> None:
    assert set(PUBLIC) - {(method, path) for method, path, _ in routes_of(apps.main)} == set()


def test_the_page_of_conformance_names_only_routes_that_exist(apps: ControlApps) -> None:
    served = {f"{method} {path}" for app in (apps.main, apps.workers) for method, path, _ in routes_of(app)}
    named = {route for line in conformance.lines()[1] for route in line.routes}
    assert len(named) > 20
    assert named - served == set()


def test_every_id_in_a_path_has_a_pattern(apps: ControlApps) -> None:
    loose = []
    for app in (apps.main, apps.workers):
        for method, path, route in routes_of(app):
            dependant = getattr(route, "dependant", None)
            if dependant is None or not path.startswith(("/api", "/webhook")):
                continue  # pages look ids up in what they show, and show nothing else
            patterned = {
                field.alias
                for field in dependant.path_params
                if any(getattr(each, "pattern", None) for each in field.field_info.metadata)
            }
            loose += [(method, path, name) for name in re.findall(r"\{(\w+)", path) if name not in patterned]
    assert loose == []


async def test_a_key_without_the_scope_changes_nothing(
    context: Context, apps: ControlApps, stranger: httpx.AsyncClient
) -> None:
    """Every route that changes something refuses a key that may only read."""
    _, secret = await api_keys.create(context.scripts, "reader", [Scope.READ])
    stranger.headers["X-API-Key"] = secret
    changed = []
    for method, path, _ in routes_of(apps.main):
        if method in ("GET", "HEAD", "OPTIONS") or not path.startswith("/api/") or path.startswith("/api/worker/"):
            continue
        if path == "/api/webhook":
            continue
        answer = await stranger.request(method, filled(path), content=b"{}")
        if answer.status_code != 403:
            changed.append((method, path, answer.status_code))
    assert changed == []


async def test_on_the_workers_listener_nothing_but_workers_routes_answers(apps: ControlApps) -> None:
    theirs = {path for _, path, _ in routes_of(apps.workers)}
    assert all(path in ("/webhook", "/api/webhook") or path.startswith("/api/worker/") for path in theirs)
    transport = httpx.ASGITransport(apps.workers, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        client.headers["X-API-Key"] = API_KEY
        for method, path, _ in routes_of(apps.main):
            if path not in theirs:
                assert (await client.request(method, filled(path))).status_code == 404, (method, path)


async def test_workers_routes_can_be_taken_off_the_main_port(context: Context) -> None:
    from tests.orchestrator.fakes import FakeRunner
    from wa_orchestrator.orchestrator import service
    from wa_orchestrator.server import bootstrap

    context.settings = context.settings.model_copy(update={"workers_on_main_port": False})
    apps = bootstrap.control_apps(service.assemble(context, FakeRunner()))
    assert [path for _, path, _ in routes_of(apps.main) if "worker" in path or path.endswith("webhook")] == []
    assert {path for _, path, _ in routes_of(apps.workers)} >= {"/webhook", "/api/webhook"}


async def test_docs_and_metrics_can_be_closed(context: Context) -> None:
    from wa_orchestrator.gateway.app import Gateway

    context.settings = context.settings.model_copy(update={"serve_docs": False, "serve_metrics": False})
    gateway = Gateway(context)
    transport = httpx.ASGITransport(gateway.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        answers = [(await client.get(path)).status_code for path in ("/docs", "/openapi.json", "/metrics", "/health")]
    assert answers == [404, 404, 404, 200]


async def test_a_stranger_s_body_is_not_read(stranger: httpx.AsyncClient) -> None:
    read = 0

    async def body() -> Any:
        nonlocal read
        for _ in range(10):
            read += 1
            yield b" " * 1000
            await asyncio.sleep(0)

    for path in (
        "/api/sessions/provision",
        "/api/v1/send/batch",
        "/api/v1/keys",
        "/api/worker/sessions/w1/outbox/claim",
    ):
        read = 0
        answer = await stranger.post(path, content=body(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 401, path
        assert read == 0, path


@pytest.mark.parametrize(
    "signature",
    ["v1", "v1,", "v1,!", "nonsense", ",", " ", "v1,a,b", "v2,x", "v1,\xff", "v1," + "A" * 5000, "\x00"],
)
async def test_a_malformed_signature_is_unauthorized_and_no_error(stranger: httpx.AsyncClient, signature: str) -> None:
    import time

    headers = {b"webhook-id": b"e1", b"webhook-timestamp": str(int(time.time())).encode()}
    headers[b"webhook-signature"] = signature.encode("latin-1")
    event = {"sessionId": "w1", "type": "PING", "timestamp": 1, "epoch": 1, "data": {}}
    answer = await stranger.post("/webhook", content=json.dumps(event), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "BAD_SIGNATURE")


@pytest.mark.parametrize("session_id", ["\ud800", "../w1", "w1\x00", "a" * 65, "", 5, None, {"a": 1}])
async def test_an_event_of_an_impossible_session_is_no_error(stranger: httpx.AsyncClient, session_id: object) -> None:
    import time

    headers = {"webhook-id": "e1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}
    for epoch in ({"epoch": 1}, {}):
        event = {"sessionId": session_id, "type": "PING", "timestamp": 1, "data": {}, **epoch}
        answer = await stranger.post("/webhook", content=json.dumps(event), headers=headers)
        assert answer.status_code in (400, 401)


def test_every_keyed_route_counts_against_a_rate(apps: ControlApps) -> None:
    """Routes that need a key have the dependency that counts; those that send are counted in Redis."""
    uncounted = []
    for method, path, route in routes_of(apps.main):
        if not path.startswith("/api/") or not isinstance(getattr(route, "original_route", route), APIRoute):
            continue
        calls = [each.call for each in route.dependant.dependencies]
        if path != "/api/webhook" and not any(hasattr(call, "before_body") for call in calls):
            uncounted.append((method, path))
    assert uncounted == []
