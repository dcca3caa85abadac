"""Server-sent events over a real server: resumption and prompt delivery."""

import asyncio
import socket

import httpx
import uvicorn

from tests.messages.conftest import API_KEY, PHONE, MessageApi
from tests.waiting import PATIENCE_S, until
from wa_orchestrator.orchestrator.api.events import routes
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.events.event_tail import Tail
from wa_orchestrator.web.app import make_app


async def test_a_client_that_reconnects_misses_nothing(api: MessageApi) -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    tail = Tail(api.context.scripts)
    app = make_app(api.context, [routes.EventRoutes(api.context, tail)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}/api/v1/events/stream?types=message.queued"
    async with httpx.AsyncClient(headers={"X-API-Key": API_KEY}, timeout=PATIENCE_S) as client:
        first = await api.scenario.accept("w1", PHONE)
        cursor, told = await _one(client, url, {"Last-Event-ID": "0"})
        assert first in told
        second = await api.scenario.accept("w1", PHONE)  # while the client is away
        cursor, told = await _one(client, url, {"Last-Event-ID": cursor})
        assert second in told
        assert (await client.get(url, headers={"X-API-Key": "wrong"})).status_code == 401
        assert (await client.get(url, headers={"Last-Event-ID": "yesterday"})).status_code == 400
    server.should_exit = True
    await asyncio.wait_for(serving, PATIENCE_S)
    await tail.close()


async def test_many_concurrent_followers_share_one_reader_and_all_are_woken(api: MessageApi) -> None:
    tail = Tail(api.context.scripts)
    begin = await event_stream.last_cursor(api.context.scripts)
    following = [asyncio.create_task(tail.after(begin)) for _ in range(3)]

    async def reads() -> bool:
        return any("xread" in each["cmd"] for each in await api.context.redis.client_list())

    await until(reads, "a reader of the stream")
    readers = [task for task in asyncio.all_tasks() if "Tail._read" in repr(task.get_coro())]
    assert len(readers) == 1
    await api.scenario.accept("w1", PHONE)
    await asyncio.wait_for(asyncio.gather(*following), PATIENCE_S)
    await tail.close()
    assert all(task.done() for task in readers)


async def _one(client: httpx.AsyncClient, url: str, headers: dict[str, str]) -> tuple[str, str]:
    """The first event of the stream: its id and its data."""
    async with client.stream("GET", url, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        cursor = ""
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                cursor = line.removeprefix("id: ")
            if line.startswith("data: "):
                return cursor, line
    raise AssertionError("the stream ended")
