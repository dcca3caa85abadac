"""A few bytes of gzip must not become gigabytes: nothing that a customer's server sends is decoded."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import Gate, OpenGate, code_of, gates, hot_path, make_settings
from tests.gateway.names import Names
from tests.gateway.website import PAGES, Website
from wa_orchestrator import outbound_http
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.orchestrator.notifications.alert_channels import HttpChannel

__all__ = ["gates", "hot_path"]
#: Eight mebibytes in a few hundred bytes; a third layer would make gigabytes of as many.
BOMB = gzip.compress(gzip.compress(b"\0" * (8 << 20)))


def _page(encoding: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BOMB)}\r\nContent-Type: image/png\r\nContent-Encoding: {encoding}"
    return head.encode() + b"\r\nConnection: close\r\n\r\n" + BOMB


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip", "br", "deflate", "zstd", "identity, gzip", "unknown"])
async def test_a_media_file_with_an_encoding_is_refused_unread(
    gates: OpenGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    website = Website(tmp_path)
    monkeypatch.setitem(PAGES, "/bomb", _page(encoding))
    async with website.serving():
        loader = ContentLoader(
            make_settings(tmp_path, allow_private_urls=True), resolve=Names("127.0.0.1"), trust=website.trust()
        )
        gate: Gate = await gates(contents=loader)
        await gate.add_session()
        body = {"to": "972511111111", "media": {"url": website.url("/bomb")}}
        response = await gate.client.post("/api/v1/send", json=body)
    assert (response.status_code, code_of(response)) == (422, "CONTENT_ENCODED")
    assert not list((tmp_path / "uploads").glob("u_*"))


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip", "br", "identity, gzip", "unknown"])
async def test_an_upload_with_an_encoding_is_refused_unread(gates: OpenGate, tmp_path: Path, encoding: str) -> None:
    gate: Gate = await gates()
    headers = {"Content-Type": "image/png", "Content-Encoding": encoding}
    response = await gate.client.post("/api/v1/uploads", content=BOMB, headers=headers)
    assert (response.status_code, code_of(response)) == (415, "CONTENT_ENCODED")
    assert not list((tmp_path / "uploads").glob("u_*"))


@asynccontextmanager
async def _answering(page: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve one page over http; gives its address and the heads of the requests."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(page)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", heads


async def test_a_webhook_s_answer_is_counted_as_it_comes_and_never_decoded() -> None:
    async with _answering(_page("gzip, gzip")) as (url, heads):
        target = await outbound_http.check(url, allow_private=True)
        async with outbound_http.request("POST", target, timeout_s=10, content=b"{}") as response:
            assert await outbound_http.drain(response, 65_536) == BOMB
    assert b"accept-encoding: identity" in heads[0].lower()


async def test_an_alert_channel_s_answer_is_never_decoded() -> None:
    page = _page("gzip, gzip").replace(b"200 OK", b"500 No", 1)
    async with _answering(page) as (url, heads), httpx.AsyncClient() as client:
        channel = HttpChannel("webhook", client, lambda _: client.build_request("POST", url, content=json.dumps({})))
        assert await channel.deliver([]) == 0
    assert b"accept-encoding: identity" in heads[0].lower()
