"""The OpenAPI document of the whole server is true: requests and clients generated from it work, without a 5xx."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from redis import Redis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.processes import whole_server
from tests.waiting import PATIENCE_S
from tests.web.clients import generate_client
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine import embedded_redis

pytestmark = pytest.mark.slow

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
#: Has no end; `test_way_of_a_message` reads it.
ENDLESS = "GET /api/v1/events/stream"
#: They wait for a worker, which the session of this test has none of.
WAIT_FOR_A_WORKER = ("POST /api/sessions/{session_id}/pairing-code", "DELETE /api/sessions/{session_id}")
SESSION, PHONE = "w1", "972501234567"
LINKED, LINKED_PHONE = "w2", "972501234568"


@dataclass(frozen=True)
class Served:
    """Where the server is, and its key."""

    url: str
    key: str = field(repr=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Everything in one process, as `up` runs it, with a stopped session, a linked one and no proxy."""
    home = tmp_path_factory.mktemp("openapi")
    settings = {"TIMEZONE": "UTC", "RATE_LIMIT_PER_MINUTE": "1000000", "CHECK_TIMEOUT_MS": "300"}
    with whole_server(home, **settings) as (url, key):
        _add_session(home / "data", SESSION, PHONE, status="stopped")
        _add_session(home / "data", LINKED, LINKED_PHONE, status="connected", first_connected_at=1)
        yield Served(url, key)


def _add_session(data: Path, session_id: str, phone: str, **fields: str | int) -> None:
    known = {"id": session_id, "phone": phone, "wanted": "stopped", "version": 1, "timezone": "UTC", **fields}
    with Redis.from_url(embedded_redis.url_in(data)) as redis:
        redis.hset(keys.session(session_id), mapping=known)
        redis.sadd(keys.SESSIONS_ALL, session_id)


def test_every_route_answers_as_the_document_says(served: Served) -> None:
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json", timeout=PATIENCE_S)
    operations: dict[str, Any] = {}
    for read in schema.get_all_operations():
        assert isinstance(read, Ok), read.err()
        operations[read.ok().label] = read.ok()
    assert {
        "POST /api/v1/send",
        "POST /api/sessions/provision",
        "GET /api/v1/proxies",
        "PUT /api/anti-ban/sessions/{session_id}/limits",
    } <= set(operations)
    del operations[ENDLESS]
    wrong = [line for label, operation in operations.items() for line in _problems(label, operation, served)]
    assert not wrong, "\n\n".join(wrong)


def _problems(label: str, operation: Any, served: Served) -> Iterator[str]:
    asks_a_worker = label in WAIT_FOR_A_WORKER or "/groups" in label
    names = (None,) if asks_a_worker or "{session_id}" not in label else (None, SESSION)
    for mode in MODES:
        for name in names:
            try:
                _try(operation, mode, served, name)
            except Unsatisfiable:
                assert mode is GenerationMode.NEGATIVE  # nothing about this route can be wrong
            except (
                Exception,
                BaseExceptionGroup,
            ) as problem:  # all routes are tried before the test says what is wrong
                yield f"{label} ({mode.value}): {problem}"


def _try(operation: Any, mode: GenerationMode, served: Served, session: str | None) -> None:
    @settings(
        max_examples=4, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        if session is not None:
            case.path_parameters["session_id"] = session
        case.call_and_validate(
            base_url=served.url, headers={"X-API-Key": served.key}, checks=list(CHECKS), timeout=PATIENCE_S
        )

    holds()


def test_a_generated_client_lists_sessions_sends_reads_and_gets_errors(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openapi.json").write_text(httpx.get(f"{served.url}/openapi.json", timeout=PATIENCE_S).text, "utf-8")
    generate_client(tmp_path, "generated_client")
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("generated_client")
    models = importlib.import_module("generated_client.models")

    def call(tag: str, operation: str, **arguments: Any) -> Any:
        module = importlib.import_module(f"generated_client.api.{tag}.{operation}")
        return module.sync(client=client, **arguments)

    access = {"base_url": served.url, "token": served.key, "timeout": httpx.Timeout(PATIENCE_S)}
    with package.AuthenticatedClient(**access, raise_on_unexpected_status=True) as client:
        page = call("sessions", "list_sessions")
        assert {SESSION, LINKED} <= {each.session_id for each in page.sessions}
        body = models.SendBody(to="972500000001", message="Hello", session_id=LINKED)
        sent = call("messages", "send_message", body=body)
        assert (sent.queued, sent.session_id) == (True, LINKED)
        message = call("messages", "get_message", message_id=sent.message_id)
        assert (message.to, message.content["text"]) == ("972500000001", "Hello")
        assert call("messages", "cancel_message", message_id=sent.message_id).status == "cancelled"
        made = call("administration", "create_api_key", body=models.KeyBody(name="crm", scopes=[models.Scope.SEND]))
        assert made.key.startswith("wao_")
        missing = call("sessions", "get_session", session_id="nobody")
        assert (type(missing).__name__, missing.error.code) == ("ErrorResponse", "NO_SUCH_SESSION")
        wrong = call("messages", "send_message", body=models.SendBody(to="972500000001"))
        assert [each.path for each in wrong.error.errors] == ["message"]
