"""The doors on a real connection: one write per answer, and everything else as uvicorn does it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from tests.gateway.conftest import API_KEY, Gate, OpenGate
from tests.waiting import until
from wa_orchestrator.gateway.app import make_gateway


@pytest.fixture
async def port(gates: OpenGate) -> AsyncIterator[int]:
    """A gateway that listens."""
    gate = await gates()
    await gate.add_session()
    _, app = make_gateway(gate.gateway.context)
    protocol = app.http_protocol
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=protocol, log_level="error", access_log=False))
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started, "the gateway listens")
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


def _request(path: str = "/api/v1/send", *, method: str = "POST", more: str = "", body: bytes | None = None) -> bytes:
    body = json.dumps({"to": "972511111111", "text": "hi"}).encode() if body is None else body
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {API_KEY}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _answers(port: int, raw: bytes, count: int) -> list[tuple[int, dict[str, str], bytes]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        found = []
        for _ in range(count):
            status, *lines = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            body = await reader.readexactly(int(headers["content-length"]))
            found.append((int(status.split()[1]), headers, body))
        return found
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_requests_that_come_in_one_packet_are_answered_in_their_order(port: int) -> None:
    bad = _request(body=b"{")
    other = _request("/api/v1/messages", method="GET", body=b"")
    found = await _answers(port, _request() + bad + other + _request() + _request("/api/v1/send/batch", body=b"[]"), 5)
    assert [status for status, _, _ in found] == [202, 400, 200, 202, 422]
    assert json.loads(found[3][2])["position"] == 2


async def test_a_door_answers_like_any_other_route(port: int) -> None:
    (_, door, _), (_, other, _) = await _answers(port, _request() + _request("/health", method="GET", body=b""), 2)
    assert door["content-type"] == "application/json"
    for name in ("server", "date", "x-content-type-options", "x-frame-options"):
        assert name in door
        assert name in other


async def test_a_body_may_come_in_pieces_and_after_a_word_of_consent(port: int) -> None:
    whole = _request(more="Expect: 100-continue\r\n")
    head, body = whole.split(b"\r\n\r\n", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head + b"\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    writer.write(body[:5])
    await writer.drain()
    writer.write(body[5:])
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 202")
    writer.close()


async def test_a_connection_is_closed_when_the_client_asks_for_it(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request(more="Connection: close\r\n"))
    whole = await asyncio.wait_for(reader.read(), 10)  # until the server closes
    assert whole.startswith(b"HTTP/1.1 202")
    assert b"connection: close\r\n" in whole
    writer.close()


async def test_the_doors_take_nothing_but_post(port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        response = await client.get("/api/v1/send", headers={"X-API-Key": API_KEY})
    assert (response.status_code, response.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")


async def test_the_routes_answer_the_same_without_the_front_door(gates: OpenGate, tmp_path: Path) -> None:
    from wa_orchestrator.web.app import make_app

    gate: Gate = await gates()
    await gate.add_session()
    app = make_app(gate.gateway.context, [gate.gateway.router()])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        body = {"to": "972511111111", "message": "hi"}
        for path in ("/api/v1/send", "/api/send"):
            response = await client.post(path, json=body, headers={"X-API-Key": API_KEY})
            assert (response.status_code, response.headers["content-type"]) == (202, "application/json")
        missing = await client.post("/api/v1/send", json=body)
        assert missing.status_code == 401
        document = (await client.get("/openapi.json")).json()
    described = document["paths"]["/api/v1/send"]["post"]
    assert described["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("SendBody")
    assert {"202", "401", "409", "422", "429", "503"} <= set(described["responses"])
