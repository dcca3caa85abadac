"""The hot path's HTTP protocol on a real connection: one write per response, and all else as uvicorn does it."""

import asyncio
import contextlib
import gc
import json
import socket
import struct
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tests.gateway.conftest import API_KEY, Gate, OpenGate
from tests.waiting import PATIENCE_S, until


@pytest.fixture
async def port(gates: OpenGate) -> AsyncIterator[int]:
    """A gateway that listens."""
    gate = await gates()
    async with _listening(gate) as (found, _):
        yield found


@contextlib.asynccontextmanager
async def _listening(gate: Gate, **options: Any) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    await gate.add_session()
    gateway = gate.gateway
    config = uvicorn.Config(gateway.app(), port=0, http=gateway.http, log_level="error", access_log=False, **options)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started, "the gateway listens")
    yield server.servers[0].sockets[0].getsockname()[1], server
    server.should_exit = True
    await serving


def _request(path: str = "/api/v1/send", *, method: str = "POST", more: str = "", body: bytes | None = None) -> bytes:
    body = json.dumps({"to": "972511111111", "text": "hi"}).encode() if body is None else body
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {API_KEY}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    status, *lines = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    return int(status.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def _answers(port: int, raw: bytes, count: int) -> list[tuple[int, dict[str, str], bytes]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        return [await _answer(reader) for _ in range(count)]
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


async def test_a_send_has_the_headers_of_any_other_response(port: int) -> None:
    (_, sent, _), (_, other, _) = await _answers(port, _request() + _request("/health", method="GET", body=b""), 2)
    assert sent["content-type"] == "application/json"
    for name in ("server", "date", "x-content-type-options", "x-frame-options"):
        assert name in sent
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
    whole = await asyncio.wait_for(reader.read(), PATIENCE_S)  # until the server closes
    assert whole.startswith(b"HTTP/1.1 202")
    assert b"connection: close\r\n" in whole
    writer.close()


async def test_a_head_that_came_before_means_the_same_again(port: int) -> None:
    named = json.dumps({"to": "972511111111", "text": "hi", "sessionId": "w1"}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for position in range(1, 6):
        writer.write(_request(body=named))
        status, headers, body = await _answer(reader)
        assert (status, headers["content-type"], json.loads(body)["position"]) == (202, "application/json", position)
    # The same head, so the same length, but another body; then one that nobody can send.
    writer.write(_request(body=named.replace(b"}", b"]")))
    assert (await _answer(reader))[0] == 400
    writer.write(_request(body=named.replace(b"w1", b"w9")))
    status, _, body = await _answer(reader)
    assert (status, json.loads(body)["error"]["code"]) == (404, "NO_SUCH_SESSION")
    writer.close()


@pytest.mark.parametrize("cut", [5, 40, -30, -1])
async def test_a_known_head_in_pieces_is_still_one_request(port: int, cut: int) -> None:
    whole = _request(body=json.dumps({"to": "972511111111", "text": "hi", "sessionId": "w1"}).encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(whole)
    assert (await _answer(reader))[0] == 202
    writer.write(whole[:cut])
    await writer.drain()
    assert (await _answers(port, whole, 1))[0][0] == 202  # by now the server has read the first piece
    writer.write(whole[cut:] + whole)
    assert [(await _answer(reader))[0] for _ in range(2)] == [202, 202]
    writer.close()


async def test_the_end_of_a_head_is_never_taken_for_a_head(port: int) -> None:
    whole = _request(body=json.dumps({"to": "972511111111", "text": "hi", "sessionId": "w1"}).encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nX-Padding: ")
        await writer.drain()
        assert (await _answers(port, whole, 1))[0][0] == 202
        writer.write(whole)  # belongs to the header above; its length is the last one that counts
        assert (await _answer(reader))[0] == 404
    writer.close()


async def test_a_connection_that_is_idle_for_long_is_closed_also_after_a_known_head(gates: OpenGate) -> None:
    whole = _request(body=json.dumps({"to": "972511111111", "text": "hi", "sessionId": "w1"}).encode())
    async with _listening(await gates(), timeout_keep_alive=2) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(whole)
            assert (await _answer(reader))[0] == 202
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()


async def test_heads_are_remembered_for_those_who_may_send_and_only_short_ones(gates: OpenGate) -> None:
    named = json.dumps({"to": "972511111111", "text": "hi", "sessionId": "w1"}).encode()
    stranger = _request(body=named).replace(API_KEY.encode(), b"wao_somebody-else-0123456789abcdef")
    async with _listening(await gates()) as (port, server):
        heads = server.config.http_protocol_class.heads  # type: ignore[attr-defined]
        assert (await _answers(port, stranger, 1))[0][0] == 401
        assert (await _answers(port, _request(body=named, more=f"X-Long: {'x' * 3000}\r\n"), 1))[0][0] == 202
        assert not heads
        assert (await _answers(port, _request(body=named), 1))[0][0] == 202
        assert len(heads) == 1


async def test_a_client_that_breaks_off_while_its_request_is_away_is_forgotten(gates: OpenGate) -> None:
    whole = _request(body=json.dumps({"to": "972511111111", "text": "hi", "sessionId": "w1"}).encode())
    gate = await gates()
    async with _listening(gate, timeout_keep_alive=2) as (port, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole)
        assert (await _answer(reader))[0] == 202
        connection = weakref.ref(next(iter(server.server_state.connections)))
        await gate.redis.client_pause(400)
        writer.write(whole)
        await writer.drain()
        linger = struct.pack("ii", 1, 0)  # close by a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await until(lambda: gc.collect() >= 0 and connection() is None, "the connection to be forgotten")
    assert len(await gate.queued()) == 2


async def test_the_send_routes_take_nothing_but_post(port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
        response = await client.get("/api/v1/send", headers={"X-API-Key": API_KEY})
    assert (response.status_code, response.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")


async def test_the_routes_answer_the_same_over_asgi(gates: OpenGate, tmp_path: Path) -> None:
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
        shown = document["components"]["schemas"]["SendBody"]["examples"][0]
        tried = await client.post("/api/v1/send", json=shown, headers={"X-API-Key": API_KEY})
        assert tried.status_code == 202, "what the page puts into the box can be sent"
    described = document["paths"]["/api/v1/send"]["post"]
    assert described["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("SendBody")
    assert {"202", "401", "409", "422", "429", "503"} <= set(described["responses"])
