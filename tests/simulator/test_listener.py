"""The listener: plain HTTP beside WebSocket."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.simulator.wireclient import World


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with World() as world, httpx.AsyncClient(base_url=f"http://127.0.0.1:{world.port}") as client:
        yield client


async def test_a_file_that_was_uploaded_is_found_again(http: httpx.AsyncClient) -> None:
    blob = bytes(range(256)) * 1000
    answer = (await http.post("/mms/image/token?auth=a&token=b", content=blob)).json()
    assert answer["url"] == f"https://mmg.whatsapp.net{answer['direct_path']}"
    assert (await http.get(answer["direct_path"] + "&hash=x")).content == blob


async def test_a_file_may_come_in_chunks(http: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for part in (b"one ", b"", b"two"):
            yield part

    answer = (await http.post("/mms/document/token", content=chunks())).json()
    assert (await http.get(answer["direct_path"])).content == b"one two"


async def test_the_version_check_returns_a_revision(http: httpx.AsyncClient) -> None:
    for path in ("/sw.js", "/"):
        assert json.loads((await http.get(path)).text)["client_revision"] > 10**9


async def test_an_unknown_path_is_404(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v/t62/missing.enc?ccb=1")).status_code == 404
    assert (await http.delete("/sw.js")).status_code == 404
