"""Every route and every event of workers, said by one that was taken over: never an error of the server, and nothing of
another session changes."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from typing import Any

import httpx
import pytest

from tests.messages.conftest import Worker
from tests.orchestrator.fakes import Teller
from tests.orchestrator.session_steps import OTHER
from tests.security.redis_content import content
from tests.security.test_routes import routes_of
from tests.security.two_workers import MESSAGE, THIEF, VICTIM, WHATSAPP_ID, workers
from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers.worker_events import TYPES
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.server import bootstrap
from wa_orchestrator.server.bootstrap import ControlApps

__all__ = ["workers"]

#: Ids in paths: those of the victim, and some that nobody has.
IDS = {
    "message_id": (MESSAGE, "m_0123456789abcdef01", "x", "..%2Fvictim", "%00", "a" * 3000),
    "command_id": ("c_0123456789ab", "x", "%00", "a" * 3000),
    "upload_id": ("u_0123456789abcdef0123456789abcdef", "..%2F..%2Fsecrets.json", "x", "%00", "a" * 3000),
}
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b"{",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e400",
    "not text": b"\xff\xfe\x00",
    "a lone surrogate": b'{"whatsappId": "\\ud800", "code": "\\ud800", "waitMs": "\\ud800"}',
    "wrong types": b'{"whatsappId": [], "code": {}, "waitMs": "x", "retryable": 5, "ok": [], "beforeWrite": {}}',
    "numbers out of range": b'{"waitMs": -1e300, "timestamp": 99999999999999999999999, "epoch": -1}',
    "depth": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "of the victim": json.dumps({"sessionId": VICTIM, "whatsappId": WHATSAPP_ID, "messageId": MESSAGE}).encode(),
    "oversize": b'{"a": "' + b"x" * 20_000_000 + b'"}',
}
#: What a field of an event may hold.
VALUES: tuple[Any, ...] = (
    None, -1, 10**30, True, "", "x" * 100_000, "\x00", "\ud800", [], {"a": {}}, VICTIM, OTHER, MESSAGE, WHATSAPP_ID,
)  # fmt: skip


@pytest.fixture
async def apps(control: Orchestrator) -> ControlApps:
    """The applications as `up` serves them."""
    return bootstrap.control_apps(control)


@pytest.fixture
async def thief(apps: ControlApps, context: Context, workers: dict[str, Worker]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the workers' listener with the token of the session that was taken over."""
    token = tokens.mint(context.settings, THIEF, workers[THIEF].epoch).token
    headers = {"Authorization": f"Bearer {token}", "X-Epoch": str(workers[THIEF].epoch)}
    transport = httpx.ASGITransport(apps.workers, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers) as client:
        yield client


async def _of_the_victim(context: Context) -> dict[str, Any]:
    """Everything in Redis whose name has the victim's session, phone or message in it."""
    return await content(context.redis, lambda name: any(part in name for part in (VICTIM, OTHER, MESSAGE)))


def _paths(path: str, session_id: str) -> Iterator[str]:
    """Yield a path with this session and every id that we know of."""
    path = path.replace("{session_id}", session_id)
    name = next((name for name in IDS if f"{{{name}}}" in path), None)
    if name is None:
        yield path
        return
    for each in IDS[name]:
        yield path.replace(f"{{{name}}}", each)


def _worker_routes(apps: ControlApps) -> list[tuple[str, str]]:
    found = [(method, path) for method, path, _ in routes_of(apps.workers) if "{session_id}" in path]
    assert len(found) >= 6, "the walk has lost its way"
    return found


async def test_a_token_opens_no_route_of_another_session(
    apps: ControlApps, context: Context, thief: httpx.AsyncClient
) -> None:
    before, opened = await _of_the_victim(context), []
    for method, path in _worker_routes(apps):
        for filled in _paths(path, VICTIM):
            answer = await thief.request(method, filled, content=b"{}")
            if answer.status_code not in (401, 403, 404, 422):
                opened.append((method, filled[:80], answer.status_code))
    assert opened == []
    assert await _of_the_victim(context) == before


@pytest.mark.parametrize("body", BODIES)
async def test_whatever_a_worker_sends_is_no_error_and_changes_nothing_of_others(
    apps: ControlApps, context: Context, thief: httpx.AsyncClient, body: str
) -> None:
    before, errors = await _of_the_victim(context), []
    for method, path in _worker_routes(apps):
        for filled in _paths(path, THIEF):
            answer = await thief.request(method, filled, content=BODIES[body])
            if answer.status_code >= 500:
                errors.append((method, filled[:80], answer.status_code, answer.text[:200]))
    assert errors == []
    assert await _of_the_victim(context) == before


@pytest.mark.parametrize("kind", TYPES)
async def test_whatever_an_event_holds_is_no_error_and_changes_nothing_of_others(
    context: Context, thief: httpx.AsyncClient, kind: str
) -> None:
    teller = Teller(context, thief)
    before, errors = await _of_the_victim(context), []
    names = [_json_name(each.name) for each in fields(TYPES[kind])]
    events: list[Any] = [dict.fromkeys(names, value) for value in VALUES]
    usual = {"messageId": MESSAGE, "whatsappId": WHATSAPP_ID, "status": "read", "at": 1, "code": 463, "kind": "text"}
    events += [{**dict.fromkeys(names, "x"), **usual, name: value} for name in names for value in VALUES]
    for data in events:
        answer = await teller.tell(THIEF, kind, data)
        if answer.status_code >= 500:
            errors.append((str(data)[:200], answer.status_code, answer.text[:200]))
    after = await _of_the_victim(context)
    assert errors == []
    assert {name: after.get(name) for name in before} == before


def _json_name(attribute: str) -> str:
    first, *others = attribute.removesuffix("_ms").split("_")
    return "from" if attribute == "sender" else first + "".join(map(str.capitalize, others))
