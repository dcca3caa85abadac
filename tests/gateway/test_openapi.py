"""The OpenAPI document is true: whatever is made from it is answered as it says, and never with a 5xx."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.gateway.conftest import API_KEY, BOTH_MODES, PHONE, make_settings
from tests.waiting import until
from wa_orchestrator.context import Context
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts

SEND = ("/api/v1/send", "/api/send")
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture
def service(redis_url: str, tmp_path: Path, hot_path: bool) -> Iterator[str]:
    """The gateway on a real port, in a thread of its own, because Schemathesis blocks."""
    import uvicorn

    ready, stop = threading.Event(), threading.Event()
    address: list[str] = []

    async def run() -> None:
        redis = LineClient.from_url(redis_url, decode_responses=True)
        await redis.flushall()
        known: dict[Any, Any] = {
            "id": "w1",
            "status": "connected",
            "phone": PHONE,
            "first_connected_at": 1,
            "timezone": "UTC",
        }
        await redis.hset(keys.session("w1"), mapping=known)
        await redis.sadd(keys.SESSIONS_ALL, "w1")
        settings = make_settings(tmp_path, gateway_hot_path=hot_path)
        gateway = Gateway(Context(settings, redis, Scripts(redis)))
        config = uvicorn.Config(gateway.app(), port=0, http=gateway.http, log_level="error", access_log=False)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        await until(lambda: server.started, "the gateway listens")
        address.append(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
        ready.set()
        await asyncio.to_thread(stop.wait)
        server.should_exit = True
        await serving
        await redis.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(60)
    try:
        yield address[0]
    finally:
        stop.set()
        thread.join(20)


@BOTH_MODES
def test_every_route_answers_as_the_document_says(service: str, hot_path: bool) -> None:
    schema = schemathesis.openapi.from_url(f"{service}/openapi.json", wait_for_schema=5)
    seen = set()
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result.err()
        operation = result.ok()
        if not hot_path and not operation.path.startswith(SEND):
            continue  # the hot path makes no difference to it
        seen.add(operation.label)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _try(operation, mode, service)
    assert {"POST /api/v1/send", "POST /api/send", "POST /api/v1/send/batch"} <= seen
    if hot_path:
        assert {
            "POST /api/v1/uploads",
            "GET /api/v1/messages",
            "DELETE /api/v1/queue/{session_id}",
            "GET /api/v1/stats/{session_id}",
        } <= seen


def _try(operation: Any, mode: GenerationMode, service: str) -> None:
    @settings(
        max_examples=6, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        case.call_and_validate(base_url=service, headers={"X-API-Key": API_KEY}, checks=list(CHECKS))

    try:
        holds()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # nothing about this route can be wrong
